package daemon

import "golang.org/x/sys/unix"

// peer returns the user and the process at the other end of a unix socket: unix(4),
// LOCAL_PEERCRED and LOCAL_PEERPID.
func peer(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, _ = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return c.Uid, pid, nil
}
