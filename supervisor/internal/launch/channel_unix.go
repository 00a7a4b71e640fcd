//go:build linux || darwin

package launch

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Channel is the supervisor's end of the worker's private channel.
type Channel struct {
	in, out   *os.File // from the worker, to the worker; both nonblocking
	raw       syscall.RawConn
	isGrown   bool // out holds more than a default pipe; for Write
	closeOnce sync.Once
	closeErr  error
}

// openChannel creates two pipes: our ends, and the ends that the other process reads and writes.
// os.Pipe's ends are nonblocking and close-on-exec; those of the other process become plain
// descriptors when they are passed.
func openChannel() (ours *Channel, theirIn, theirOut *os.File, err error) {
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	in, theirOut, err := os.Pipe()
	if err == nil {
		if ours, err = newChannel(in, out); err == nil {
			return ours, theirIn, theirOut, nil
		}
		in.Close()
		theirOut.Close()
	}
	theirIn.Close()
	out.Close()
	return nil, nil, nil, err
}

// newChannel returns a channel over both files, which it owns from now on.
func newChannel(in, out *os.File) (*Channel, error) {
	raw, err := out.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Channel{in: in, out: out, raw: raw}, nil
}

// Read reads what the worker has written, and waits if there is nothing.
func (c *Channel) Read(b []byte) (int, error) { return c.in.Read(b) }

// defaultPipeBytes is the default capacity of a pipe on Linux, in bytes.
const defaultPipeBytes = 64 << 10

// Write writes b and waits for the worker to read. If the pipe is too small, it is enlarged once,
// because each write to a full pipe costs a switch between two processes.
func (c *Channel) Write(b []byte) (int, error) {
	if len(b) > defaultPipeBytes && !c.isGrown {
		c.isGrown = true
		_ = c.raw.Control(func(fd uintptr) { growPipe(int(fd), 4*defaultPipeBytes) })
	}
	return c.out.Write(b)
}

// writeWithin is Write with a bound on its time.
func (c *Channel) writeWithin(limit time.Duration, b []byte) (int, error) {
	if err := c.out.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer func() { _ = c.out.SetWriteDeadline(time.Time{}) }()
	return c.out.Write(b)
}

// TryWrite writes as much as fits into the pipe now, without waiting. It returns 0 and no
// error if the pipe is full. It must not be called during a Write.
func (c *Channel) TryWrite(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	closed := c.raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case err == syscall.EAGAIN:
		return 0, nil
	}
	return max(n, 0), err
}

// Close closes both directions and ends a Read or Write in progress.
func (c *Channel) Close() error {
	c.closeOnce.Do(func() { c.closeErr = errors.Join(c.out.Close(), c.in.Close()) })
	return c.closeErr
}
