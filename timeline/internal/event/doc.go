// Package event declares the events of a session: the fields of each kind, its cost in memory, and
// its forms. These are JSON for clients, records for the events file, and lines for output.txt and
// for readers.
//
// Package timeline, which orders events in a log, gives all types their public names. One table in
// kinds.go lists the fields of each kind; both JSON and records follow it.
//
// It starts no goroutines, and opens no files.
package event
