package supervisor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileID distinguishes a file from a later one of the same name, which may reuse its inode.
func fileID(f *os.File) string {
	var s unix.Statx_t
	if unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &s) != nil || s.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprintf("%x-%x.%x", s.Ino, s.Btime.Sec, s.Btime.Nsec)
}
