// Package templates tests the workers of package workers/templates in real sessions.
package templates
