package stdio

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openProcess returns a function that waits for the end of a process; nil if there is none. A pidfd
// keeps to its process, even after the number belongs to another one.
func openProcess(pid int) (wait func(), err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil { // a kernel before 5.3, or a filter of system calls
		return pollProcess(pid)
	}
	return func() {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}, nil
}

// replaceDescriptor makes to the same file as from.
func replaceDescriptor(from, to int) error { return unix.Dup3(from, to, 0) }
