package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/paths"
)

// A fileSnapshot holds the content and metadata of a file as it was read.
type fileSnapshot struct {
	target string // the file itself, with symbolic links resolved
	exists bool
	text   []byte
	info   fs.FileInfo
}

// readFile reads a configuration. A missing file counts as empty.
func readFile(path string) (fileSnapshot, error) {
	s := fileSnapshot{target: path}
	target, err := paths.Real(path)
	switch {
	case err == nil:
		s.target = target
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	default:
		if to, err := os.Readlink(path); err == nil {
			return s, fmt.Errorf("%s is a symbolic link to %s, which does not exist", path, to)
		}
		return s, nil
	}
	if s.info, err = os.Stat(s.target); err != nil {
		return s, err
	}
	if !s.info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return s, fmt.Errorf("%s is not a regular file", s.target)
	}
	var f *os.File
	err = retryWhileInUse(func() error {
		f, err = os.Open(s.target)
		return err
	})
	if err != nil {
		return s, err
	}
	defer f.Close()
	s.exists = true
	s.text, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(s.text) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d MiB, too large for a configuration", s.target, maxFileBytes>>20)
	}
	return s, err
}

// errChanged means that another program changed the file at the same time.
var errChanged = errors.New("another program is changing it; try again")

// replaceFile replaces the file that was read by text, atomically. A change by another program in
// the microseconds between the last check and the rename is lost, because no rename depends on the
// contents. Another repl install waits for this one.
func (s fileSnapshot) replaceFile(text []byte) error {
	if s.exists && s.info.Mode()&0o200 == 0 {
		return fmt.Errorf("%s is read-only and was not changed; another program may manage it", s.target)
	}
	if err := os.MkdirAll(filepath.Dir(s.target), 0o755); err != nil {
		return err
	}
	return writeFile(s.target, text, s, s.checkUnchanged)
}

// removeFile removes the file that was read.
func (s fileSnapshot) removeFile() error {
	if err := s.checkUnchanged(); err != nil {
		return err
	}
	return os.Remove(s.target)
}

// removeEmptyDirs removes the directories that a removed file leaves empty, which would suggest
// that a client is installed. Directories shared by all programs stay.
func (d ConfigDirs) removeEmptyDirs(file string) {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || dir == filepath.Dir(dir) {
			return
		}
		for _, shared := range []string{d.Home, d.Config, d.XDG, d.Project} {
			if i, err := os.Stat(shared); err == nil && os.SameFile(i, info) {
				return
			}
		}
		if os.Remove(dir) != nil { // the directory is not empty
			return
		}
	}
}

func (s fileSnapshot) checkUnchanged() error {
	now, err := readFile(s.target)
	if err != nil || now.exists != s.exists || !bytes.Equal(now.text, s.text) {
		return errors.Join(errChanged, err)
	}
	return nil
}

// backupPath returns the name of the only backup, which is next to the file.
func backupPath(path string) string { return path + ".before-turnstone" }

// backUp copies a file that is about to be replaced, with the same permissions.
func (s fileSnapshot) backUp(path string) error {
	if err := writeFile(backupPath(path), s.text, s, nil); err != nil {
		return fmt.Errorf("cannot write a backup, so nothing was changed: %w", err)
	}
	return nil
}

// writeFile writes a file atomically, with the mode, owner and permissions of like, if that exists.
// check is called just before the file replaces the old one, and may prevent that with an error.
func writeFile(path string, text []byte, like fileSnapshot, check func() error) error {
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	_, err = f.Write(text)
	if like.exists {
		err = errors.Join(err, copyAccess(f.File, like), f.Chmod(like.info.Mode().Perm()))
	}
	if err = errors.Join(err, f.Sync()); err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	return replaceBy(f, check)
}

// inUseTimeout bounds the wait for another program that has a lock or a file.
const inUseTimeout = 5 * time.Second

// replaceBy puts a new file at its path. check may fail before each attempt.
func replaceBy(f *atomicfile.PendingFile, check func() error) error {
	return retryWhileInUse(func() error {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		return f.Commit()
	})
}

// retryWhileInUse repeats try for a while if it fails because another program has the file open, as
// can happen on Windows.
func retryWhileInUse(try func() error) error {
	late := time.NewTimer(inUseTimeout)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil || !isInUse(err) {
			return err
		}
		select {
		case <-again.C:
		case <-late.C:
			return fmt.Errorf("it is in use by another program: %w", err)
		}
	}
}
