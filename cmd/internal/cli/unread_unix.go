//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// whenUnread calls f once nobody can read any more what is written to a pipe. Nothing
// ends the wait for that but the end of the pipe, or of this program; it costs a thread.
func whenUnread(pipe *os.File, f func()) {
	if i, err := pipe.Stat(); err != nil || i.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	fds := []unix.PollFd{{Fd: int32(pipe.Fd())}} // the end is told without being asked for
	go func() {
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
		if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			f()
		}
	}()
}
