// Package screen turns the bytes that a session prints into lines, as a terminal would finally show
// them, and adds labels between them. It knows nothing of events, and starts no goroutines.
package screen
