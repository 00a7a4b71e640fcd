package peer

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// of returns the user and the process at the other end of a socket: unix(4), LOCAL_PEERCRED and
// LOCAL_PEERPID.
func of(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, _ = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return c.Uid, pid, nil
}

// lives has no answer here.
func lives(int) error { return nil }

// processName names a process as it would itself.
func processName(pid int) string { return strconv.Itoa(pid) + "@" }

// ownName names this process.
func ownName() string { return processName(os.Getpid()) }
