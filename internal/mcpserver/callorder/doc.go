// Package callorder decides which call of a caller may run code in a session next. A TurnQueue is a
// pure value: its owner guards it with a lock, tells it what happens, and carries out its
// decisions.
//
// The package knows neither MCP nor sessions. To it, a call is any comparable value, with a number.
// It starts no goroutines.
package callorder
