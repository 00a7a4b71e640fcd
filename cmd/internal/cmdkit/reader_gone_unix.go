//go:build unix

package cmdkit

import (
	"os"

	"golang.org/x/sys/unix"
)

// OnReaderGone calls f when a pipe, or a socket used as one, has lost its last reader. It waits in
// a goroutine that occupies a thread, and ends only then or with the program.
func OnReaderGone(pipe *os.File, f func()) {
	if i, err := pipe.Stat(); err != nil || i.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	fds := []unix.PollFd{{Fd: int32(pipe.Fd())}} // poll always reports the end
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
