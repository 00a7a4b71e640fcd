// Package ttymode switches the modes of the terminal that a user types into, and reads its keys. It
// knows no keys and draws nothing. It starts no goroutines.
//
// The terminal is the one at standard input, and on Windows also the one at standard output.
package ttymode
