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

// Keys names the places in which a user's key may be.
type Keys struct {
	Dirs []string // the key is in the first one that takes a file; no session may see or write them
	UID  int      // the user's
}

// Load returns the key. It never takes one that another user could have written or read. Without
// one the error is [fs.ErrNotExist].
func (k Keys) Load() ([]byte, error) {
	for _, dir := range k.Dirs {
		if key, err := k.loadFrom(dir); !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
	}
	return nil, fmt.Errorf("there is no %s in %s: %w", keyName, strings.Join(k.Dirs, " or "), fs.ErrNotExist)
}

// LoadOrCreate is Load, and makes a key if there is none.
func (k Keys) LoadOrCreate() ([]byte, error) {
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
	return nil, fmt.Errorf("cannot make the key by which clients know the daemon: %w", errors.Join(failures...))
}

// createIn makes a key, in one step. If another program has made one at the same moment, it returns that. A file
// system may give files another owner or mode than they were made with.
func (k Keys) createIn(dir string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, keyName+"-") // of mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // which never fails
	_, err = fmt.Fprintln(f, hex.EncodeToString(key))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, keyName)
	made := os.Link(f.Name(), path)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	key, err = k.loadFrom(dir)
	if err != nil && made == nil {
		_ = os.Remove(path)
	}
	return key, err
}

func (k Keys) loadFrom(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a pipe would wait
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a link and must be a file: remove it", path)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission): // it cannot be made there either
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
		return nil, fmt.Errorf("%s does not hold a key: remove it", path)
	}
	return key, nil
}

// checkFile refuses the file of a key to which others have rights.
func (k Keys) checkFile(f *os.File, dir string) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	above, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !i.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: remove it", f.Name())
	case ownerOf(i) != k.UID:
		return fmt.Errorf("%s belongs to another user (uid %d): remove it", f.Name(), ownerOf(i))
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others have rights to %s (mode %04o): remove it", f.Name(), i.Mode().Perm())
	case ownerOf(above) != k.UID:
		return fmt.Errorf("%s belongs to another user (uid %d)", dir, ownerOf(above))
	case above.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write to %s (mode %04o): chmod go-w it", dir, above.Mode().Perm())
	}
	return nil
}

func ownerOf(i os.FileInfo) int {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
