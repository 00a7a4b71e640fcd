//go:build !windows

package install

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// keepOwner gives a new file the owner of the old one, which matters under sudo.
func keepOwner(f *os.File, old os.FileInfo) error {
	s, ok := old.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() && int(s.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(s.Uid), int(s.Gid))
}

// lockTime is how long another repl install is waited for.
const lockTime = 5 * time.Second

// lock keeps other processes of ours from replacing files in a directory, until
// unlock is called or this process ends. A file system without locks has none.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { d.Close() }
	late := time.NewTimer(lockTime)
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
