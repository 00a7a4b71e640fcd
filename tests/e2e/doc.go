// Package e2e tests the command as people and programs use it: through the built binary, its
// streams, signals and a real terminal.
package e2e
