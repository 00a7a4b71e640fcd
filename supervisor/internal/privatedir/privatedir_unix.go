//go:build linux || darwin

package privatedir

import (
	"os"
	"strconv"
	"syscall"
)

// IsOwnedByUser reports whether the file belongs to the user of this process.
func IsOwnedByUser(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// IsWritableByOthers reports whether other users may write to the file.
func IsWritableByOthers(info os.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// DirName returns the name of this user's directory in the temporary directory.
func DirName() string { return "turnstone-" + strconv.Itoa(os.Getuid()) }

// LockFile creates the file if needed and locks it. It fails if another process or holder
// has the lock. Closing the file, or the end of this process, releases it.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
