package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// A SocketType is the type of a socket.
type SocketType = zmq4.SocketType

// The types of sockets that Jupyter needs. A heartbeat is a Router that sends back what it receives.
const (
	Router SocketType = zmq4.Router
	XPub   SocketType = zmq4.XPub
	Dealer SocketType = zmq4.Dealer
	Sub    SocketType = zmq4.Sub
)

// Bounds of the messages queued for a peer that does not read.
const (
	maxQueued      = 1024     // messages
	maxQueuedBytes = 64 << 20 // bytes of them
)

const (
	handshakeTimeout = 10 * time.Second
	maxIdentity      = 255 // bytes, by the specification
)

// ErrSlowPeer means that a peer did not read its queued messages, and was disconnected.
var ErrSlowPeer = errors.New("zmtp: the peer does not read; its connection was closed")

// A Conn is a connection to one peer, after the handshake. It is safe for concurrent use, except for
// Receive, which only one goroutine may call.
type Conn struct {
	guard    *framingGuard
	wire     *zmq4.Conn
	identity string
	once     sync.Once
	closed   chan struct{}

	writeMu sync.Mutex // held while a message is written, which a slow peer may delay

	mu          sync.Mutex
	queue       [][][]byte
	queuedBytes int
	sending     bool          // messages from queue are being written
	queued      chan struct{} // holds one element if queue is not empty; nil before the first Enqueue
	sender      sync.WaitGroup
}

// newConn does the handshake on a network connection that was just opened. It fails when ctx ends.
func newConn(ctx context.Context, raw net.Conn, kind SocketType, identity string, server bool, unread *atomic.Int64) (c *Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	g := newFramingGuard(raw, unread)
	g.skipsLarge = kind == Sub
	defer func() {
		// The library's parser of properties trusts the lengths that it reads.
		if r := recover(); r != nil {
			err = fmt.Errorf("zmtp: malformed handshake: %v", r)
		}
		if !stop() && err == nil {
			err = fmt.Errorf("zmtp: no handshake: %w", context.Cause(ctx))
		}
		if err != nil {
			g.endMessage()
			raw.Close()
			c = nil
		}
	}()
	wire, err := zmq4.Open(g, null.Security(), kind, zmq4.SocketIdentity(identity), server, nil)
	if err != nil {
		return nil, err
	}
	name := wire.Peer.Meta["Identity"]
	if len(name) > maxIdentity {
		return nil, fmt.Errorf("zmtp: identity of %d bytes, more than %d", len(name), maxIdentity)
	}
	g.endHandshake()
	return &Conn{guard: g, wire: wire, identity: name, closed: make(chan struct{})}, nil
}

// Identity returns the name that the peer gave itself. It may be "".
func (c *Conn) Identity() string { return c.identity }

// A TooLargeError reports a message of a publisher with more than MaxMessage bytes, which was skipped.
type TooLargeError struct{ Bytes uint64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("zmtp: message of %d bytes is too large", e.Bytes)
}

// Receive returns the frames of the next message, at most MaxFrames and MaxMessage bytes. After any
// error except a TooLargeError the connection is closed.
func (c *Conn) Receive() ([][]byte, error) {
	msg, err := c.wire.RecvMsg()
	skipped := c.guard.skippedBytes
	c.guard.endMessage()
	if err != nil {
		c.Close()
		return nil, err
	}
	if skipped > 0 {
		return nil, &TooLargeError{skipped}
	}
	return msg.Frames, nil
}

// Send writes a message, and returns once it is in the kernel's buffers. If the peer does not read, Send
// blocks until Close. After an error the connection is closed.
func (c *Conn) Send(frames ...[]byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	err := c.wire.SendMsg(zmq4.NewMsgFrom(frames...))
	if err == nil {
		err = c.guard.flushOutput()
	}
	if err != nil {
		c.closeWithoutWait()
	}
	return err
}

// Enqueue passes a message to a goroutine that sends it, and never blocks. If too much is queued already,
// it closes the connection and returns ErrSlowPeer.
func (c *Conn) Enqueue(frames ...[]byte) error {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	if len(c.queue) >= maxQueued || c.queuedBytes > 0 && c.queuedBytes+size > maxQueuedBytes {
		c.closeWithoutWait()
		return ErrSlowPeer
	}
	if c.queued == nil {
		c.queued = make(chan struct{}, 1)
		c.sender.Go(c.sendQueued)
	}
	c.queue, c.queuedBytes = append(c.queue, frames), c.queuedBytes+size
	select {
	case c.queued <- struct{}{}:
	default:
	}
	return nil
}

func (c *Conn) sendQueued() {
	for {
		select {
		case <-c.queued:
		case <-c.closed:
			return
		}
		for {
			c.mu.Lock()
			batch := c.queue
			c.queue, c.queuedBytes, c.sending = nil, 0, len(c.queue) > 0
			c.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			for _, frames := range batch {
				if c.Send(frames...) != nil {
					return
				}
			}
		}
	}
}

// Flush waits until all queued messages are written, at most for limit.
func (c *Conn) Flush(limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		c.mu.Lock()
		left := len(c.queue) > 0 || c.sending
		c.mu.Unlock()
		if !left {
			return
		}
		select {
		case <-c.closed:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// Subscribe subscribes a Sub to messages that start with topic.
func (c *Conn) Subscribe(topic string) error { return c.Send(append([]byte{1}, topic...)) }

// Close ends the connection. Messages that are still queued are lost.
func (c *Conn) Close() error {
	c.closeWithoutWait()
	c.sender.Wait()
	return nil
}

// Closed returns a channel that is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

func (c *Conn) closeWithoutWait() {
	c.once.Do(func() {
		close(c.closed)
		c.guard.Conn.Close()
	})
}

// Dial connects to an endpoint, such as "tcp://127.0.0.1:5555" or "ipc:///run/x", as a Dealer or Sub.
// It retries every 20 ms until ctx ends, since the other side may not listen yet. Then it returns the
// last error.
func Dial(ctx context.Context, endpoint string, kind SocketType, identity string) (*Conn, error) {
	network, address, err := splitEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	for {
		raw, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			var c *Conn
			if c, err = newConn(ctx, raw, kind, identity, false, new(atomic.Int64)); err == nil {
				return c, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("zmtp: cannot connect to %s: %w", endpoint, err)
		}
	}
}

func splitEndpoint(endpoint string) (network, address string, err error) {
	transport, address, _ := strings.Cut(endpoint, "://")
	switch {
	case address == "":
		return "", "", fmt.Errorf("zmtp: %q is not an endpoint; use tcp://ADDRESS:PORT or ipc://PATH", endpoint)
	case transport == "tcp":
		return "tcp", address, nil
	case transport == "ipc":
		return "unix", address, nil
	}
	return "", "", fmt.Errorf("zmtp: the transport of %q must be tcp or ipc", endpoint)
}
