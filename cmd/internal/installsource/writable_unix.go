//go:build unix

package installsource

import "golang.org/x/sys/unix"

// isWritable reports whether this user may write to a directory. One that cannot be examined counts
// as writable: the package manager says what is wrong.
func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK) != unix.EACCES }
