//go:build unix

package stdio

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is the pause between two looks for a process, where the kernel does not report its
// end.
const pollInterval = time.Second

// pollProcess is openProcess for systems without notice of an end. A parent that has ended is
// noticed even if its number has a new owner.
func pollProcess(pid int) (wait func(), err error) {
	isGone := func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
	if os.Getppid() == pid {
		isGone = func() bool { return os.Getppid() != pid }
	}
	if isGone() {
		return nil, nil
	}
	return func() {
		for !isGone() {
			time.Sleep(pollInterval)
		}
	}, nil
}
