// Package remote has the commands repl remote and repl bridge. The first manages the daemons on
// other machines from here, and the second runs at the remote end. Package daemonlink connects to
// the program there and installs it. The package starts no goroutines.
package remote
