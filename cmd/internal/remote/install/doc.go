// Package install installs the program at the remote end of a remote, and passes the questions of
// its transport command to the user.
//
// [Install] runs one shell there, by the remote's own command and "sh". It finds the program of an
// earlier installation, or uploads it, and ends when the program has run there once.
//
// # One shell for every transport
//
// The remote end needs only sh: ssh, docker, kubectl and srun share nothing but that they run a
// program and carry its standard streams. So a script, and then the program, go through the
// standard input of sh. The program is checked by its hash and by running version, which also
// reveals a wrong architecture or a missing library, and only then renamed. Copy commands were
// rejected: scp, docker cp and kubectl cp each have their own permissions, and srun has none. A
// download at the remote end was rejected, because it may have no network. Agents install it only
// where the remote's settings or an earlier installation allow it.
//
// # Goroutines
//
// A dialogue with a remote end has those of its command (package transportcmd). They end with
// Install.
package install
