//go:build !windows

package install

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// copyAccess gives a new file the owner of the old one, which matters under sudo.
func copyAccess(f *os.File, old fileSnapshot) error {
	s, ok := old.info.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() && int(s.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(s.Uid), int(s.Gid))
}

// wouldGarble reports whether a program would receive a changed word. On Unix none does.
func wouldGarble(program, word string) bool { return false }

// isInUse reports whether an error means that another program has the file open.
func isInUse(error) bool { return false }

// lockDir keeps our other processes from replacing files in a directory, until unlock is called or
// this process ends. It does nothing on a file system without locks.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { d.Close() }
	late := time.NewTimer(inUseTimeout)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return unlock, nil
		}
		select {
		case <-again.C:
		case <-late.C:
			unlock()
			return nil, errChanged
		}
	}
}
