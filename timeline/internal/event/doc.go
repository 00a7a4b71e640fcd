// Package event declares the events of a session: the fields of each kind, its cost, and its forms.
// These are JSON for clients, records for the events file, and lines for output.txt and for readers.
//
// Package timeline, which orders events in a log, gives all types their public names. Only one table
// says which kind has which fields, in kinds.go: both JSON and records follow it.
//
// It starts no goroutines, and opens no files.
package event
