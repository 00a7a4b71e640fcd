// Package mountlist has the mounts of a session, and the list in which a plan collects them together
// with the paths that decided about them. The values are also those that a monitor is sent, so their
// JSON form is part of what supervisor and monitor say to each other. The package reads no files, mounts
// nothing and starts no goroutines.
package mountlist
