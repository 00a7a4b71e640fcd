package daemon

import "golang.org/x/sys/unix"

// peerUID is the user at the other end of a unix socket: unix(7), SO_PEERCRED.
func peerUID(fd int) (uint32, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return c.Uid, nil
}
