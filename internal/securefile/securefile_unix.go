//go:build unix

package securefile

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeDir makes a directory and its parents, if they are missing.
func MakeDir(path string) error { return os.MkdirAll(path, 0o700) }

// CreateTemp makes a new file in dir, whose name begins with prefix. The caller
// closes and removes it.
func CreateTemp(dir, prefix string) (*os.File, error) {
	return os.CreateTemp(dir, prefix) // mode 0600
}

// Open opens a file for reading.
func Open(path string) (*os.File, error) { return os.Open(path) }

// Rename gives a file another name, unless that is taken, which is fs.ErrExist.
func Rename(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// Check returns an error when path is neither a plain file nor a directory, or when
// others than its owner have rights to it. It says how to take them away.
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
	return fmt.Errorf("others have rights to %s: take them away (chmod %o %s)", path, mode, filepath.Clean(path))
}
