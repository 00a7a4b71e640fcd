// Package store keeps the events of a log in its two files, and reads them there. "events" has all
// events as records; "output.txt" has their text as lines.
//
// A [FileWriter] writes both, in batches. Readers do not wait for it. An [EventsView] has the
// events that were in the file at one time, and [ScanOutputFile] reads lines. Both start at
// positions that the writer has returned, and end early if the files were replaced in the meantime.
// A [BlobTable] has large data that several events share.
//
// The package has no locks and starts no goroutines. A log has both.
package store
