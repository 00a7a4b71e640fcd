//go:build unix

package installsource

import "golang.org/x/sys/unix"

// ReplacesRunningFile says that the file of a running program can be replaced.
const ReplacesRunningFile = true

// isWritable reports whether this user may write to a directory. One that cannot be examined counts
// as writable: the package manager says what is wrong.
func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK) != unix.EACCES }
