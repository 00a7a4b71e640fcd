// Package export writes a session as a file: a script or a notebook of the inputs that succeeded,
// or a plain transcript of everything. It reads events once, in order, and holds one turn in
// memory. It reads data that an event only references when it writes that data. The package starts
// no goroutines.
package export
