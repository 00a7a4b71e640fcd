// Package bootstrap brings the program to the far side of a place, and the questions of the
// command that leads there to the person.
//
// [Install] runs one shell there, by the place's own command and "sh". It finds the program that
// an earlier one has left, or is sent it, and is done when the program has run there once.
//
// # Goroutines
//
// A conversation with a far side has those of its command (package prefix). They end with Install.
package install
