package stdio

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// finalWriteTimeout bounds the writing of queued lines after reading has been ended. A client that
// does not read would otherwise hold up the end of the process.
const finalWriteTimeout = 2 * time.Second

// A Conn is the connection to the client at the other ends of standard input and output.
type Conn struct {
	in    io.ReadCloser
	out   io.WriteCloser
	ended chan struct{}
	once  sync.Once

	mu     sync.Mutex
	timer  *time.Timer // guarded by mu; closes the Conn; nil before CloseRead
	closed bool        // guarded by mu
}

// Open takes over standard input and output for the protocol. Afterwards standard input is empty,
// and what other code prints to standard output goes to standard error, so that it cannot damage
// the protocol.
func Open(in, out *os.File) (*Conn, error) {
	in, out, err := takeStreams(in, out)
	if err != nil {
		return nil, err
	}
	return newConn(in, out), nil
}

func newConn(in, out *os.File) *Conn {
	c := &Conn{in: in, out: out, ended: make(chan struct{})}
	if in.SetReadDeadline(time.Time{}) != nil {
		c.in = newBlockingReader(in)
	}
	if out.SetWriteDeadline(time.Time{}) != nil {
		c.out = newBlockingWriter(out)
	}
	return c
}

// InputEnded is closed when the client has closed its end, or the Conn was closed.
func (c *Conn) InputEnded() <-chan struct{} { return c.ended }

// Read reads from the client.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if err != nil {
		c.once.Do(func() { close(c.ended) })
	}
	return n, err
}

// Write writes to the client.
func (c *Conn) Write(b []byte) (int, error) { return c.out.Write(b) }

// CloseRead ends reading. Writing ends after finalWriteTimeout.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(finalWriteTimeout, func() { _ = c.Close() })
	}
	return c.in.Close()
}

// Close closes both streams. Blocked reads and writes fail.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.closed = true
	c.once.Do(func() { close(c.ended) })
	_ = c.in.Close() // CloseRead may have closed it
	return c.out.Close()
}

// A streamAddr is the address of both sides.
type streamAddr struct{}

func (streamAddr) Network() string { return "stdio" }
func (streamAddr) String() string  { return "standard input and output" }

// LocalAddr returns a fixed address.
func (c *Conn) LocalAddr() net.Addr { return streamAddr{} }

// RemoteAddr returns a fixed address.
func (c *Conn) RemoteAddr() net.Addr { return streamAddr{} }

// SetDeadline returns an error: the streams may not support deadlines.
func (c *Conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline returns an error: the streams may not support deadlines.
func (c *Conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline returns an error: the streams may not support deadlines.
func (c *Conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// A Listener has one client, at standard input and output.
type Listener struct {
	conn   chan *Conn // holds the client until Accept returns it
	closed chan struct{}
	once   sync.Once
}

// NewListener returns a Listener whose only client is at the other end of c.
func NewListener(c *Conn) *Listener {
	l := &Listener{conn: make(chan *Conn, 1), closed: make(chan struct{})}
	l.conn <- c
	return l
}

// Accept returns the client, once. Later calls wait for Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept fail. The client stays connected.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a fixed address.
func (l *Listener) Addr() net.Addr { return streamAddr{} }
