package peer

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerCredentials returns the user and the process at the other end of a socket: unix(4), LOCAL_PEERCRED and
// LOCAL_PEERPID.
func peerCredentials(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, _ = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return c.Uid, pid, nil
}

// checkAlive has no answer here.
func checkAlive(int) error { return nil }

// processName names a process as it would itself.
func processName(pid int) string { return strconv.Itoa(pid) + "@" }

// ownProcessName names this process.
func ownProcessName() string { return processName(os.Getpid()) }
