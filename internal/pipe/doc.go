// Package pipe is what a daemon and its clients speak over on Windows: a named pipe
// that belongs to one user. It knows bytes and nothing of what they say. On other
// systems, where there are unix sockets, it is empty.
package pipe
