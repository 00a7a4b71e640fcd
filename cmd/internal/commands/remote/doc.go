// Package remote has the commands repl remote and repl bridge: the first manages the daemons on other
// machines from here, and the second is what runs at the remote end. Package daemonlink reaches and
// installs the program there. The package starts no goroutines.
package remote
