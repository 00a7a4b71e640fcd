// Package atomicfile replaces files atomically: other programs see the old file or the new one,
// never a part. It starts no goroutines.
package atomicfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A PendingFile is a new file that replaces another when it is complete. Until then it is in the
// same directory, under a name that begins with the final name.
type PendingFile struct {
	*os.File
	path   string
	closed bool
	done   bool // it has its name, or was removed
}

// Write replaces the file at path by one that contains data, or creates it. perm is the mode of the new
// file before the umask; the mode of the old file does not count. If path is a symbolic link, the link
// itself is replaced.
func Write(path string, data []byte, perm fs.FileMode) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// maxBaseBytes bounds the part of the final name that a temporary name repeats: file systems allow
// 255 bytes.
const maxBaseBytes = 200

// Create opens a file that Commit puts at path. perm is its mode before the umask.
func Create(path string, perm fs.FileMode) (*PendingFile, error) {
	base := filepath.Base(path)
	base = text.Truncate(base, maxBaseBytes)
	for {
		name := filepath.Join(filepath.Dir(path), base+".new-"+strconv.FormatUint(uint64(rand.Uint32()), 10))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		switch {
		case err == nil:
			return Adopt(f, path), nil
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
}

// Adopt returns a PendingFile for a file that is already open, on the same file system as path.
func Adopt(f *os.File, path string) *PendingFile { return &PendingFile{File: f, path: path} }

// Commit closes the file and puts it at its path. It may be called again after an error, for example while
// another program on Windows has the old file open.
func (f *PendingFile) Commit() error {
	if !f.closed {
		f.closed = true
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	return nil
}

// Abort closes and removes the file, unless Commit has put it at its path. Defer it.
func (f *PendingFile) Abort() {
	if f.done {
		return
	}
	f.done = true
	if !f.closed {
		f.closed = true
		_ = f.Close()
	}
	_ = os.Remove(f.Name())
}
