// Package fileaccess decides, outside of a sandbox, what a session may do with files of the
// machine. The supervisor asks it before it reads or writes a file for a client.
//
// The supervisor has the rights of the user. Without these decisions, a client that puts files for
// a model could write a git hook that the code of the session may not write. So a [Judge] asks the
// guard of the monitor, package nameguard, about each name. It reads the mounts from the plan of
// the running worker. A file that a mount hides, or of which the session has a version of its own,
// is refused as well.
//
// The monitor sees the files in the mount namespace of its session, and this package sees those of
// the machine. They are the same files where the session writes, and those are the only places that
// a Judge allows to write. In a few cases it is stricter than the monitor: it does not change git
// settings in the session's own repositories, and it replaces no mount point.
//
// Reading through /proc/PID/root was rejected: it leads into a tree of names that the code has made.
//
// The package starts no goroutines.
package fileaccess
