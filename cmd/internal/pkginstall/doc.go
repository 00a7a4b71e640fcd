// Package packages makes a language's packages available to a session, without changing the
// user's installation. It puts them into a separate directory, which the runtime finds by
// its environment. Such a directory is made once, kept in the user's cache, and never
// changed afterwards.
//
// Two processes may make the same one at once. Each works in a directory of its own and
// renames it when it is complete; the second uses the directory of the first.
//
// # Goroutines
//
// None outlives a call. While a tool runs, os/exec copies its output.
package pkginstall
