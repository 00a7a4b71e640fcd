package daemon

import "golang.org/x/sys/unix"

// peerUID is the user at the other end of a unix socket: unix(4), LOCAL_PEERCRED.
func peerUID(fd int) (uint32, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return c.Uid, nil
}
