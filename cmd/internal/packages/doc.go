// Package packages makes a language's packages available to a session, without
// changing what the user has installed: they are put into a directory of their own,
// which the runtime is told of by its environment. Such a directory is made once,
// kept in the user's cache, and never changed afterwards.
//
// Two processes may make the same one at once: each works in a directory of its own
// and renames it when it is whole; the second takes what the first has made.
//
// # Goroutines
//
// None that outlives a call. While a tool runs, os/exec copies what it says.
package packages
