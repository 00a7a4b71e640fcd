// Package export writes a session as a file: a script or a notebook of the inputs that
// succeeded, or a plain transcript of everything. It reads events once, in order, and keeps
// one turn in memory. It reads data that the events only name when it writes that. It starts no
// goroutine.
package export
