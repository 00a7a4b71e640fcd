// Package pipe connects a daemon and its clients on Windows, by a named pipe that belongs to
// one user. It carries bytes and knows nothing of their meaning. On other systems, which have
// Unix sockets, it is empty.
package namedpipe
