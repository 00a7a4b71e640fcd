//go:build !linux

package filestate

import (
	"io/fs"
	"os"
	"syscall"
)

// StampOf returns the stamp of a file, or zero if it does not exist.
func StampOf(name string) Stamp {
	st, err := os.Stat(name)
	if err != nil {
		return Stamp{}
	}
	return Stamp{size: st.Size(), Modified: st.ModTime().UnixNano(), Changed: st.ModTime().UnixNano()}
}

// SameFilesystem returns false: no session on this system needs to know.
func SameFilesystem(a, b string) bool { return false }

// IdentityOf returns "", because no session on this system has repositories to remember.
func IdentityOf(string) string { return "" }

// LocalIdentity is IdentityOf.
func LocalIdentity(name string) string { return IdentityOf(name) }

// LstatType returns the file type like Lstat.
func LstatType(path string) (fs.FileMode, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return st.Mode().Type(), nil
}

// IsWritable reports whether the user may create names in a directory.
func IsWritable(string) bool { return true }

// OpenNoLinks opens a file for reading; no session on this system could put a link in its path.
func OpenNoLinks(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// IsOwned reports whether the user owns a directory.
func IsOwned(string) bool { return true }
