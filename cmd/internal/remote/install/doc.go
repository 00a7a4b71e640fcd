// Package install installs the program at the remote end of a remote, and passes the questions of
// its transport command to the user.
//
// [Install] runs one shell at the remote end, by the remote's own command and "sh". It finds the
// program of an earlier installation, or uploads it. It ends when the program has run there once.
//
// # One shell for every transport
//
// The remote end needs only sh. ssh, docker, kubectl and srun have only one thing in common: they
// run a program and carry its standard streams. So a script, and then the program, go through the
// standard input of sh. The program is checked by its hash, then by running version, which also
// reveals a wrong architecture or a missing library. Only then is it renamed to its final name.
// Agents install it only where the remote's settings or an earlier installation allow it.
//
// Copy commands were rejected: scp, docker cp and kubectl cp each have their own permissions, and
// srun has no such command. A download at the remote end was rejected, because it may have no
// network.
//
// # Goroutines
//
// An installation has the goroutines of its command (package transportcmd). They end with Install.
package install
