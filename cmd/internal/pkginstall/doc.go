// Package pkginstall makes a language's packages available to a session, without changing the
// user's installation. It puts them into a separate directory, which the runtime finds through its
// environment. Such a directory is created once in the user's cache, and never changed afterwards.
//
// Two processes may create the same directory at once. Each works in a temporary directory and
// renames it when it is complete; the second uses the directory of the first.
//
// # Goroutines
//
// None outlives a call. While a tool runs, os/exec copies its output.
package pkginstall
