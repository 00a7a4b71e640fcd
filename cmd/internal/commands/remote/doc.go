// Package remote has the commands repl remote and repl bridge: the first manages the user's
// remotes, and the second runs at the remote end. Package daemonlink reaches and installs the
// program there. The package starts no goroutines.
package remote
