// Package namedpipe connects a daemon and its clients on Windows, by a named pipe that belongs to
// one user. It transports bytes and does not interpret them. On other systems, which have Unix
// sockets, it is empty.
package namedpipe
