// Package gitdir knows what makes a directory a repository of git, which files of one other programs run
// or trust, and which repositories a session made itself. It asks git for its settings, without letting
// git run any other program. It decides nothing about calls, and starts no goroutines.
package gitdir
