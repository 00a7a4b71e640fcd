//go:build unix

package cmdkit

import "golang.org/x/sys/unix"

// HasSameTerminal reports whether this program runs at the same terminal as a process, even if that
// process has left it: both belong to the same session of the system.
func HasSameTerminal(pid int) bool {
	its, err := unix.Getsid(pid)
	if err != nil || pid <= 0 {
		return false
	}
	ownSession, err := unix.Getsid(0)
	return err == nil && ownSession == its
}
