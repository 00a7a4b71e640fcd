//go:build unix

package securefile

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeDir creates a directory and its missing parents.
func MakeDir(path string) error { return os.MkdirAll(path, 0o700) }

// CreateTemp creates a file in dir with a new name that begins with prefix. The caller closes and
// removes it.
func CreateTemp(dir, prefix string) (*os.File, error) {
	return os.CreateTemp(dir, prefix) // mode 0600
}

// Open opens a file for reading.
func Open(path string) (*os.File, error) { return os.Open(path) }

// Rename renames a file. If the new name exists, the error is fs.ErrExist.
func Rename(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// Check returns an error if path is neither a regular file nor a directory, or if other users have
// access to it. The error says how to remove that access.
func Check(path string) error {
	i, err := statFileOrDir(path)
	if err != nil {
		return err
	}
	if i.Mode().Perm()&0o077 == 0 {
		return nil
	}
	mode := 0o600
	if i.IsDir() {
		mode = 0o700
	}
	return fmt.Errorf("other users have access to %s; run chmod %o %s", path, mode, filepath.Clean(path))
}
