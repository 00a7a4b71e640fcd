//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other programs from moving a log while this one does, until unlock. Without a lock,
// which some file systems lack, two could move it, and the second the new and empty one.
func lock(f *os.File) (unlock func()) {
	fd := int(f.Fd())
	for errors.Is(unix.Flock(fd, unix.LOCK_EX), unix.EINTR) {
	}
	return func() { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
}
