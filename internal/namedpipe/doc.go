// Package namedpipe connects a daemon and its clients on Windows, by a named pipe that belongs to
// one user. It transports bytes and does not interpret them. On other systems, which have Unix
// sockets, it is empty.
//
// # Alternatives
//
// On Windows nobody owns the name of a pipe: the first process that takes it can read what clients
// send. So the listener creates the first instance or fails, and a client checks the owner and the
// process behind a pipe before it writes. A flag of the pipe refuses clients on other machines.
//
// The library go-winio was rejected. It does not tell a client who listens. Under Wine 10, a client
// that dials before the first Accept is never accepted (5 of 5 attempts). About 200 lines of this
// package would remain. A Unix socket was rejected: on Windows it does not name the peer, and Wine
// has none. TCP on localhost was rejected: any user can connect, and its token is one more file to
// protect. An access entry that denies NETWORK was rejected, because it would also lock out the
// user who logs in over SSH with a key.
package namedpipe
