//go:build linux || darwin

package host

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// Channel is the supervisor's end of the worker's private channel.
type Channel struct {
	in, out   *os.File // from the worker, to the worker; both nonblocking
	raw       syscall.RawConn
	isGrown   bool // out holds more than a usual pipe; for Write
	closeOnce sync.Once
	closeErr  error
}

// newChannel owns both files from now on.
func newChannel(in, out *os.File) (*Channel, error) {
	raw, err := out.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Channel{in: in, out: out, raw: raw}, nil
}

func (c *Channel) Read(b []byte) (int, error) { return c.in.Read(b) }

// defaultPipeBytes is what a pipe holds on Linux, in bytes.
const defaultPipeBytes = 64 << 10

// Write waits for the worker to read. A pipe that is too small for what waits is made larger once:
// each time that it is full costs a change between two processes.
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
