// Package mountlist describes the mounts of a session. A plan collects them in a list, together
// with the paths that determined them. The supervisor sends these values to the monitor, so their
// JSON form is part of the protocol between the two. The package reads no files, mounts nothing and
// starts no goroutines.
package mountlist
