package stdio

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openProcess returns a function that waits for the end of a process; nil if there is none.
func openProcess(pid int) (wait func(), err error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return pollProcess(pid)
	}
	unix.CloseOnExec(queue)
	change := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	if _, err := unix.Kevent(queue, []unix.Kevent_t{change}, nil, nil); err != nil {
		_ = unix.Close(queue)
		if errors.Is(err, unix.ESRCH) {
			return nil, nil
		}
		return pollProcess(pid)
	}
	return func() {
		events := make([]unix.Kevent_t, 1)
		for {
			n, err := unix.Kevent(queue, nil, events, nil)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}, nil
}

// replaceDescriptor makes to the same file as from.
func replaceDescriptor(from, to int) error { return unix.Dup2(from, to) }
