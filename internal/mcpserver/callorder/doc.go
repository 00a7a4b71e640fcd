// Package callorder decides which call of a caller may run code in a session next. A TurnQueue is
// a pure value: its owner guards it with a lock, passes in what happens, and carries out the
// decisions.
//
// The package knows neither MCP nor sessions: a call is any comparable value, with a number. It
// starts no goroutines.
package callorder
