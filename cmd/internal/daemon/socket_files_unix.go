//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ensurePrivateDir creates dir if necessary, and returns an error if other users can reach files in
// it.
func ensurePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory of the socket: %w", err)
	}
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := i.Sys().(*syscall.Stat_t)
	switch {
	case !i.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; name a socket elsewhere with --socket", dir)
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can reach %s (mode %04o), and the socket in it; run chmod 0700 on it, or name a socket elsewhere with --socket", dir, i.Mode().Perm())
	}
	return nil
}

// acquireLockFile takes the lock that a daemon holds while it serves a socket. A daemon empties the
// file when it ends cleanly. So a process in the file is a daemon that crashed, which is returned
// as crashed; 0 if the file is empty.
func acquireLockFile(path string) (lock *os.File, crashed int, err error) {
	lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot open the lock file of the socket: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	holder, _ := os.ReadFile(path)
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = lock.Close()
		return nil, 0, &inUseError{path, ": by process " + strings.TrimSpace(string(holder))}
	}
	if err == nil && !isSameFile(path, statOf(lock)) {
		err = errors.New("the lock file was removed in the meantime; try again")
	}
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = lock.Close()
		return nil, 0, fmt.Errorf("cannot lock the socket: %w", err)
	}
	crashed, _ = strconv.Atoi(strings.TrimSpace(string(holder)))
	return lock, crashed, nil
}

// removeDeadSocket removes the socket of a daemon that was killed.
func removeDeadSocket(path string) error {
	i, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket and was not removed; name another path with --socket", path)
	}
	conn, err := net.DialTimeout("unix", path, startTimeout)
	if err == nil {
		_ = conn.Close()
		return &inUseError{path: path}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether %s is in use: %w", path, err)
	}
	return os.Remove(path)
}
