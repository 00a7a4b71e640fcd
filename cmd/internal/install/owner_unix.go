//go:build !windows

package install

import (
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of the old one, which matters under sudo.
func keepOwner(f *os.File, old os.FileInfo) error {
	s, ok := old.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() && int(s.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(s.Uid), int(s.Gid))
}
