// Package gitdir recognizes git repositories. It knows which of their files other programs run or
// trust, and which repositories a session made itself. It asks git for its settings without letting
// git run any other program. It decides nothing about system calls, and starts no goroutines.
package gitdir
