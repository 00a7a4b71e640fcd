// Package export writes down what happened in a session: as a script or a notebook
// of the inputs that succeeded, or as a plain transcript of everything. It reads
// events once, in order, and keeps one turn in memory. It starts no goroutine.
package export
