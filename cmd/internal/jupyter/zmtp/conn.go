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

// A Kind is the type of a socket.
type Kind = zmq4.SocketType

// The types of sockets that Jupyter needs. A heartbeat is a Router that sends back what it gets.
const (
	Router Kind = zmq4.Router
	XPub   Kind = zmq4.XPub
	Dealer Kind = zmq4.Dealer
	Sub    Kind = zmq4.Sub
)

// Bounds of what waits for a peer that does not read.
const (
	maxQueued      = 1024     // messages
	maxQueuedBytes = 64 << 20 // bytes of them
)

const (
	handshakeTimeout = 10 * time.Second
	maxIdentity      = 255 // bytes, by the specification
)

// ErrSlowPeer means that a peer was not read what was posted to it, and was left.
var ErrSlowPeer = errors.New("zsock: the peer does not read; its connection was closed")

// A Conn is a connection to one peer, after the handshake. It is safe for concurrent use, but for
// Recv, which one goroutine calls.
type Conn struct {
	guard    *framingGuard
	wire     *zmq4.Conn
	identity string
	once     sync.Once
	closed   chan struct{}

	writeMu sync.Mutex // held while a message is written, which the peer may hold up

	mu          sync.Mutex
	queue       [][][]byte
	queuedBytes int
	sending     bool          // some of what was posted is being written
	queued      chan struct{} // has one element when posted has some; nil before the first Post
	sender      sync.WaitGroup
}

// newConn makes a connection of one that is just open. It ends when ctx does.
func newConn(ctx context.Context, raw net.Conn, kind Kind, identity string, server bool, unread *atomic.Int64) (c *Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	g := newFramingGuard(raw, unread)
	g.skipsLarge = kind == Sub
	defer func() {
		// The library's reader of properties takes lengths for what they say.
		if r := recover(); r != nil {
			err = fmt.Errorf("zsock: a malformed handshake: %v", r)
		}
		if !stop() && err == nil {
			err = fmt.Errorf("zsock: no handshake: %w", context.Cause(ctx))
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
		return nil, fmt.Errorf("zsock: an identity of %d bytes; at most %d", len(name), maxIdentity)
	}
	g.endHandshake()
	return &Conn{guard: g, wire: wire, identity: name, closed: make(chan struct{})}, nil
}

// Identity is the peer's name of itself. It may be "".
func (c *Conn) Identity() string { return c.identity }

// A TooLargeError is that of a message of a publisher which has more than MaxMessage bytes.
type TooLargeError struct{ Bytes uint64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("zsock: a message of %d bytes", e.Bytes) }

// Receive returns the frames of the next message, at most MaxFrames and MaxMessage bytes. After an
// error that is no TooLargeError the connection is of no more use.
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

// Send writes a message, and returns when it is in the kernel's buffers: for as long as the peer
// does not read, that lasts until Close. After an error the connection is of no more use.
func (c *Conn) Send(frames ...[]byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	err := c.wire.SendMsg(zmq4.NewMsgFrom(frames...))
	if err == nil {
		err = c.guard.flushOutput()
	}
	if err != nil {
		c.closeConn()
	}
	return err
}

// Enqueue leaves a message to a goroutine that sends it, and never waits. It returns ErrSlowPeer, and
// closes the connection, when too much waits already.
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
		c.closeConn()
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

// Flush waits until all that was posted is written, at most for limit.
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

// Subscribe asks the publisher on the other side of a Sub for what begins with topic.
func (c *Conn) Subscribe(topic string) error { return c.Send(append([]byte{1}, topic...)) }

// Close ends the connection. Messages that were posted and not written are lost.
func (c *Conn) Close() error {
	c.closeConn()
	c.sender.Wait()
	return nil
}

// Closed is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

func (c *Conn) closeConn() {
	c.once.Do(func() {
		close(c.closed)
		c.guard.Conn.Close()
	})
}

// Dial connects to an endpoint, such as "tcp://127.0.0.1:5555" or "ipc:///run/x", as a Dealer or
// Sub, and tries again every 20 ms until ctx ends, since the other side may be about to listen.
// An error is the last one that was seen.
func Dial(ctx context.Context, endpoint string, kind Kind, identity string) (*Conn, error) {
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
			return nil, fmt.Errorf("zsock: cannot connect to %s: %w", endpoint, err)
		}
	}
}

func splitEndpoint(endpoint string) (network, address string, err error) {
	transport, address, _ := strings.Cut(endpoint, "://")
	switch {
	case address == "":
		return "", "", fmt.Errorf("zsock: %q is no endpoint; one is tcp://ADDRESS:PORT or ipc://PATH", endpoint)
	case transport == "tcp":
		return "tcp", address, nil
	case transport == "ipc":
		return "unix", address, nil
	}
	return "", "", fmt.Errorf("zsock: the transport of %q is neither tcp nor ipc", endpoint)
}
