// Package e2e tries the command the way people and programs use it: through the
// built binary, its streams, signals and a real terminal.
package e2e
