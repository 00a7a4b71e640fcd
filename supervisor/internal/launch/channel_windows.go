package launch

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/winpipe"
	"golang.org/x/sys/windows"
)

// listenPipe creates a pipe; access is the direction from this side's view.
func listenPipe(access uint32) (*winpipe.Pipe, error) {
	return winpipe.ListenAt(`\\.\pipe\turnstone-`+randomHex()+randomHex(), access)
}

// A Channel is the supervisor's end of the worker's private channel. Reads and writes wait
// until the worker connects.
type Channel struct {
	in, out    *winpipe.Pipe
	connected  chan struct{} // closed when the worker has connected, or never will
	connectErr error         // valid once connected is closed
	closeOnce  sync.Once
	closeErr   error

	mu        sync.Mutex
	stopEvent windows.Handle // ends accept; 0 once closed; written under mu, by Close alone
}

// openChannel creates both pipes; accept then waits for the worker.
func openChannel() (_ *Channel, err error) {
	c := &Channel{connected: make(chan struct{})}
	if c.stopEvent, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
		return nil, err
	}
	if c.in, err = listenPipe(windows.PIPE_ACCESS_INBOUND); err == nil {
		if c.out, err = listenPipe(windows.PIPE_ACCESS_OUTBOUND); err == nil {
			return c, nil
		}
		c.in.Close()
	}
	windows.CloseHandle(c.stopEvent)
	return nil, err
}

// accept waits for the worker, until stopAccepting.
func (c *Channel) accept(belongs func(pid int) bool) {
	defer close(c.connected)
	for _, p := range []*winpipe.Pipe{c.out, c.in} {
		if err := p.AwaitClient(belongs, time.Time{}, c.stopEvent); err != nil {
			c.connectErr = io.EOF
			if !errors.Is(err, winpipe.ErrAcceptStopped) {
				c.connectErr = fmt.Errorf("launch: the worker's channel: %w", err)
			}
			return
		}
	}
}

// stopAccepting ends accept once no process is left that could connect. The channel may already
// be closed.
func (c *Channel) stopAccepting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopEvent != 0 {
		_ = windows.SetEvent(c.stopEvent)
	}
}

// Read reads what the worker has written, and waits if there is nothing.
func (c *Channel) Read(b []byte) (int, error) {
	if <-c.connected; c.connectErr != nil {
		return 0, c.connectErr
	}
	n, err := c.in.File.Read(b)
	if n == 0 && errors.Is(err, windows.ERROR_BROKEN_PIPE) {
		err = io.EOF
	}
	return n, err
}

// Write writes b in pieces that the pipe's buffer holds, and waits for the worker to read.
func (c *Channel) Write(b []byte) (int, error) {
	if <-c.connected; c.connectErr != nil {
		return 0, io.ErrClosedPipe
	}
	total := 0
	for total < len(b) {
		n, err := c.out.File.Write(b[total:min(len(b), total+winpipe.BufferBytes)])
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Close closes both directions and ends a Read or Write in progress.
func (c *Channel) Close() error {
	c.closeOnce.Do(func() {
		c.stopAccepting()
		<-c.connected
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closeErr = errors.Join(c.out.Close(), c.in.Close(), windows.CloseHandle(c.stopEvent))
		c.stopEvent = 0
	})
	return c.closeErr
}
