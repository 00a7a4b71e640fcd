//go:build !linux

package confine

import (
	"io/fs"
	"os"
	"syscall"
)

// stampOf returns the stamp of a file, or zero if it does not exist.
func stampOf(name string) stamp {
	st, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{size: st.Size(), modified: st.ModTime().UnixNano(), changed: st.ModTime().UnixNano()}
}

func sameFilesystem(a, b string) bool { return false }

// identityOf returns "", because no session on this system has repositories to remember.
func identityOf(string) string { return "" }

func localIdentity(name string) string { return identityOf(name) }

// lstatType returns the file type like Lstat.
func lstatType(path string) (fs.FileMode, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return st.Mode().Type(), nil
}

// isWritable reports whether the user may make names in a directory.
func isWritable(string) bool { return true }

// openNoLinks opens a file for reading; no session on this system could put a link in its path.
func openNoLinks(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// isOwned reports whether the user owns a directory.
func isOwned(string) bool { return true }
