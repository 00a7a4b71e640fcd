// Package callorder decides which call of a caller may run code in a session next. A TurnQueue is
// a pure value: its owner guards it with a lock, passes in what happens, and carries out the
// decisions. The package starts no goroutines.
package callorder
