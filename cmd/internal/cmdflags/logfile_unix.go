//go:build unix

package cmdflags

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockLogFile keeps other programs from moving a log until unlock is called. On a file system
// without locks, two programs could move the log one after the other, and the second would move an
// empty file.
func lockLogFile(f *os.File) (unlock func()) {
	fd := int(f.Fd())
	for errors.Is(unix.Flock(fd, unix.LOCK_EX), unix.EINTR) {
	}
	return func() { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
}
