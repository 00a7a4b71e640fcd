// Package redact replaces secrets in text, in the forms in which programs usually repeat them, also
// where the text comes in pieces. It starts no goroutines, and its types are not safe for concurrent
// use.
package redact
