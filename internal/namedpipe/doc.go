// Package namedpipe connects a daemon and its clients on Windows, by a named pipe that belongs to
// one user. It transports bytes and does not interpret them. On other systems, which have Unix
// sockets, it is empty.
//
// # Alternatives
//
// The name of a pipe belongs to nobody on Windows: the first process that takes it can read what
// clients send. So the listener creates the first instance or fails, and a client checks the owner
// and the process behind a pipe before it writes. go-winio does not tell a client who listens. Under
// Wine 10, a client that dials before the first Accept is never accepted (5 of 5 attempts). About 200
// lines of this package would remain. A Unix socket on Windows does not name the peer, and Wine has
// none. Any user can connect to TCP on localhost, and its token is one more file to protect. Other
// machines are refused by a flag of the pipe. An entry against NETWORK would also lock out the user
// who is logged in over SSH with a key.
package namedpipe
