//go:build linux || darwin

package host

import (
	"os"
	"syscall"
)

// FoldEnv says whether the names of environment variables are compared
// without case.
const FoldEnv = false

// What a start may fail of.
const (
	errNotDirectory = syscall.ENOTDIR
	errNoProgram    = syscall.ENOEXEC
	errTooLong      = syscall.E2BIG
)

// OwnedByUs reports whether the file belongs to the user of this process.
func OwnedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// Lock takes the lock of a file, which it makes, unless another process or
// holder has it. Closing the file, or the end of this process, gives it back.
func Lock(path string) (*os.File, error) {
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
