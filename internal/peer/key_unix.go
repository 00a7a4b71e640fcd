//go:build unix

package peer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	keyName  = "daemon.key"
	keyBytes = 32
)

// KeyDirs names the directories in which the key of a user may be.
type KeyDirs struct {
	Dirs []string // the key is in the first directory that is writable; sessions must not see or write these directories
	UID  int      // of the user
}

// Load returns the key. It never returns one that another user could have written or read. Without
// a key the error is [fs.ErrNotExist].
func (k KeyDirs) Load() ([]byte, error) {
	for _, dir := range k.Dirs {
		if key, err := k.loadFrom(dir); !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
	}
	return nil, fmt.Errorf("no %s in %s: %w", keyName, strings.Join(k.Dirs, " or "), fs.ErrNotExist)
}

// LoadOrCreate returns the key as Load does, and creates one if there is none.
func (k KeyDirs) LoadOrCreate() ([]byte, error) {
	var failures []error
	for _, dir := range k.Dirs {
		key, err := k.loadFrom(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
		if key, err = k.createIn(dir); err == nil {
			return key, nil
		}
		failures = append(failures, err)
	}
	return nil, fmt.Errorf("cannot create the key by which clients recognize the daemon: %w", errors.Join(failures...))
}

// createIn creates a key atomically. If another program creates one at the same time, createIn
// returns that key. It reads the key back, because a file system may give a file another owner or
// mode than requested.
func (k KeyDirs) createIn(dir string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, keyName+"-") // of mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	_, err = fmt.Fprintln(f, hex.EncodeToString(key))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, keyName)
	linkErr := os.Link(f.Name(), path)
	if linkErr != nil && !errors.Is(linkErr, fs.ErrExist) {
		return nil, linkErr
	}
	key, err = k.loadFrom(dir)
	if err != nil && linkErr == nil {
		_ = os.Remove(path)
	}
	return key, err
}

// loadFrom reads the key in one directory.
func (k KeyDirs) loadFrom(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // do not block on a pipe
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link and must be a file; remove it", path)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission): // it cannot be created there either
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	if err := k.checkFile(f, dir); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*keyBytes))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s does not contain a key; remove it", path)
	}
	return key, nil
}

// checkFile returns an error if other users have access to the file of a key.
func (k KeyDirs) checkFile(f *os.File, dir string) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	parent, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !i.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; remove it", f.Name())
	case ownerOf(i) != k.UID:
		return fmt.Errorf("%s belongs to another user (uid %d); remove it", f.Name(), ownerOf(i))
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users have access to %s (mode %04o); remove it", f.Name(), i.Mode().Perm())
	case ownerOf(parent) != k.UID:
		return fmt.Errorf("%s belongs to another user (uid %d)", dir, ownerOf(parent))
	case parent.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users can write to %s (mode %04o); run chmod go-w on it", dir, parent.Mode().Perm())
	}
	return nil
}

// ownerOf returns the owner of a file, or -1 if unknown.
func ownerOf(i os.FileInfo) int {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
