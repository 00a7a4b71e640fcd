// Package install installs the program at the remote end of a remote, and passes the questions of
// its transport command to the user.
//
// [Install] runs one shell there, by the remote's own command and "sh". It finds the program of an
// earlier installation, or uploads it, and ends when the program has run there once.
//
// # Goroutines
//
// A dialogue with a remote end has those of its command (package transportcmd). They end with
// Install.
package install
