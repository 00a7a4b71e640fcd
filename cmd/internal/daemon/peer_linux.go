package daemon

import "golang.org/x/sys/unix"

// peer returns the user and the process at the other end of a unix socket: unix(7),
// SO_PEERCRED.
func peer(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return c.Uid, int(c.Pid), nil
}
