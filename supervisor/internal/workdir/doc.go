// Package workdir reads and writes files of a session's working directory for clients.
//
// The code of the session writes the same directory at the same time. So every name is resolved in
// an open directory by [os.Root], which follows no link out of it. Pipes and devices are refused
// without waiting for them. A file that is put has a temporary name next to its target until it is
// complete. Its directory stays open meanwhile, so a directory that is exchanged for a link gets
// nothing.
//
// An [Approver] decides for a session with a sandbox. Without one, a call has the rights of the user,
// but also stays below the working directory: a client that names a file by mistake should not
// reach the whole disk.
//
// # Locks
//
// Puts.mu is held only for its maps. put.mu is held while the pieces of one file are written,
// so that they are written one after the other. Puts.renaming is held while the last piece gives a
// file its name. Both are held while the disk works; no other part of the session needs them.
// Puts.mu may be taken while put.mu is held.
//
// The package starts no goroutines.
package workdir
