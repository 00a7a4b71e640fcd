//go:build linux || darwin

package launch

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// A Channel is the supervisor's end of the worker's private channel.
type Channel struct {
	in, out   *os.File // from the worker, to the worker; both nonblocking
	raw       syscall.RawConn
	isGrown   bool // out holds more than a default pipe; for Write
	closeOnce sync.Once
	closeErr  error
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
// because each time it is full costs a switch between two processes.
func (c *Channel) Write(b []byte) (int, error) {
	if len(b) > defaultPipeBytes && !c.isGrown {
		c.isGrown = true
		_ = c.raw.Control(func(fd uintptr) { growPipe(int(fd), 4*defaultPipeBytes) })
	}
	return c.out.Write(b)
}

// Close closes both directions and ends a Read or Write in progress.
func (c *Channel) Close() error {
	c.closeOnce.Do(func() { c.closeErr = errors.Join(c.out.Close(), c.in.Close()) })
	return c.closeErr
}
