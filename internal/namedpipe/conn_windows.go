package namedpipe

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// pipeBytes is the buffer size of a pipe in each direction, and bounds one write: the kernel stores
// the rest of a larger write in scarce memory.
const pipeBytes = 64 << 10

// A conn is this end of a connection. It cannot be closed in one direction only.
type conn struct {
	file *os.File
	addr address
}

func newConn(h windows.Handle, name string) *conn {
	return &conn{os.NewFile(uintptr(h), name), address(name)}
}

// An address is the name of a pipe, which both ends share.
type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }

func (c *conn) LocalAddr() net.Addr                { return c.addr }
func (c *conn) RemoteAddr() net.Addr               { return c.addr }
func (c *conn) SetDeadline(t time.Time) error      { return c.file.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.file.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.file.SetWriteDeadline(t) }
func (c *conn) Close() error                       { return c.file.Close() }

// isClosed reports whether err means that the other end is closed.
func isClosed(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.file.Read(b)
	if isClosed(err) {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		n, err := c.file.Write(b[total:min(len(b), total+pipeBytes)])
		total += n
		if isClosed(err) {
			err = io.ErrClosedPipe
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
