package peer

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerCredentials returns the user and the process at the other end of a socket: unix(4),
// LOCAL_PEERCRED and LOCAL_PEERPID.
func peerCredentials(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, _ = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return c.Uid, pid, nil
}

// checkAlive returns nil: on this system it is unknown whether the process at the other end has
// ended.
func checkAlive(int) error { return nil }

// processName returns the name that a process has for itself in a proof.
func processName(pid int) string { return strconv.Itoa(pid) + "@" }

// ownProcessName returns the name of this process in a proof.
func ownProcessName() string { return processName(os.Getpid()) }
