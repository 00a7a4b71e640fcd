package ipc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// MaxQueueBytes bounds what a [Conn] holds for a peer that does not read.
const MaxQueueBytes = 2 * MaxFrameBytes

// roomBytes is how much may be unsent when SendWithRoom sends.
const roomBytes = 256 << 10

// flushTime bounds how long Close waits for a peer that does not read what was sent.
const flushTime = time.Second

// usualFrame is the first size of a frame's buffer, in bytes: enough for most.
const usualFrame = 128

// A Conn is one end of a worker's channel. Send may be called by many
// goroutines, Receive by one at a time.
type Conn struct {
	rw   io.ReadWriteCloser
	try  tryWriter // rw, when it can; else nil
	peer Side
	in   frameReader // Receive only

	log *slog.Logger // where frames are noted; nil: nowhere. Set before use

	handOver  chan struct{} // tells the writer that it is its turn; holds one
	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	closeErr  error          // of closing rw; valid once closeOnce is done
	wg        sync.WaitGroup // the writer

	roomy sync.Mutex // one SendWithRoom at a time waits for room, and takes it

	mu      sync.Mutex
	room    chan struct{} // closed when there is room again; nil when nobody waits; guarded by mu
	queue   [][]byte      // waiting frames; the first may be partly written; guarded by mu
	unsent  int           // bytes in queue and of the frame that is being written; guarded by mu
	taken   bool          // a Send is writing, or it is the writer's turn; guarded by mu
	flushed chan struct{} // closed when nothing is taken any more; nil before Close; guarded by mu
	err     error         // the answer to every Send; guarded by mu
}

// tryWriter is an rw that can write without waiting: as much as fits now, which may be
// nothing.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// NewConn returns a Conn that uses rw; peer is the side at its other end. Closing rw must
// end its Read and Write, as it does for pipes and sockets. If rw has a method
// TryWrite(b []byte) (n int, err error) that writes as much as fits at once, Send uses
// it, so that a frame does not wait for another goroutine.
func NewConn(rw io.ReadWriteCloser, peer Side) *Conn {
	c := &Conn{
		rw:       rw,
		peer:     peer,
		in:       frameReader{r: rw},
		handOver: make(chan struct{}, 1),
		closing:  make(chan struct{}),
	}
	c.try, _ = rw.(tryWriter)
	c.wg.Go(c.writer)
	return c
}

// Send sends m, or queues it if the peer is slow; it never waits for the peer. Messages
// arrive in the order of the calls. It refuses a message that breaks the protocol
// ([ErrTooLarge] if it is too large), and one for which the queue of [MaxQueueBytes] has
// no room ([ErrQueueFull]); the connection stays usable. A nil error does not mean that
// the peer has read m.
func (c *Conn) Send(m Message) error {
	frame, err := AppendFrame(make([]byte, 0, usualFrame), m)
	if err != nil {
		return err
	}
	if messageTypes[m.Type()].from == c.peer {
		return fmt.Errorf("ipc: cannot send %s: it is for the other direction", m.Type())
	}
	if c.log != nil {
		c.logFrame(messageTypes[m.Type()].from, m, len(frame))
	}
	direct, err := c.submit(frame)
	if !direct || err != nil {
		return err
	}
	n, err := c.try.TryWrite(frame)
	c.yield(frame[n:], n, err)
	return c.failure()
}

// SendWithRoom is Send for messages that may be many and large. It waits while the peer has
// more than 256 KiB to read, so that other messages are never far behind, and the queue is
// never full. It ends, with the error of Send, when the connection fails or is closed.
func (c *Conn) SendWithRoom(m Message) error {
	c.roomy.Lock()
	defer c.roomy.Unlock()
	for {
		c.mu.Lock()
		if c.err != nil || c.unsent <= roomBytes {
			c.mu.Unlock()
			return c.Send(m)
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		<-room
	}
}

// writtenLocked takes in that n bytes were written, and the error if that failed.
func (c *Conn) writtenLocked(n int, err error) {
	c.unsent -= n
	if err != nil {
		c.failLocked(fmt.Errorf("ipc: send: %w", err))
	}
	if c.unsent <= roomBytes {
		c.roomLocked()
	}
}

// roomLocked wakes the SendWithRoom that waits.
func (c *Conn) roomLocked() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// submit queues a frame. If direct, it did not: the caller must write the frame itself.
func (c *Conn) submit(frame []byte) (direct bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return false, c.err
	case c.unsent+len(frame) > MaxQueueBytes:
		return false, ErrQueueFull
	}
	c.unsent += len(frame)
	if !c.taken && c.try != nil {
		c.taken = true
		return true, nil
	}
	c.queue = append(c.queue, frame)
	if !c.taken {
		c.taken = true
		c.handOver <- struct{}{}
	}
	return false, nil
}

// yield ends a direct write of n bytes. It queues rest, which was not written.
func (c *Conn) yield(rest []byte, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writtenLocked(n, err)
	if err == nil && len(rest) > 0 {
		c.queue = append([][]byte{rest}, c.queue...)
	}
	if len(c.queue) == 0 {
		c.leaveLocked()
		return
	}
	c.handOver <- struct{}{}
}

// leaveLocked ends a turn at writing: nothing waits to be written.
func (c *Conn) leaveLocked() {
	c.taken = false
	if c.flushed != nil {
		close(c.flushed)
		c.flushed = nil
	}
}

// next returns the next frame for the writer, which has written n bytes of the one
// before. nil means that the writer's turn is over.
func (c *Conn) next(n int, err error) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writtenLocked(n, err)
	if len(c.queue) == 0 {
		c.leaveLocked()
		return nil
	}
	frame := c.queue[0]
	c.queue[0] = nil // otherwise the array keeps it in memory
	c.queue = c.queue[1:]
	return frame
}

func (c *Conn) writer() {
	for {
		select {
		case <-c.handOver:
		case <-c.closing:
			return
		}
		for frame := c.next(0, nil); frame != nil; {
			n, err := c.rw.Write(frame)
			frame = c.next(n, err)
		}
	}
}

func (c *Conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// failLocked drops the queue and makes err the answer to every Send from now on, unless
// there is one already.
func (c *Conn) failLocked(err error) {
	if c.err == nil {
		c.err = err
	}
	c.queue = nil
	c.roomLocked()
}

// Receive waits for the next message. The error is io.EOF when the peer closed
// its side between two frames, io.ErrUnexpectedEOF when inside one, a
// [*ProtocolError] when the frame is wrong, and [ErrClosed] after Close. After an
// error there is nothing more to receive.
func (c *Conn) Receive() (Message, error) {
	payload, err := c.in.next()
	if err == nil {
		var m Message
		if m, err = Decode(payload, c.peer); err == nil {
			if c.log != nil {
				c.logFrame(c.peer, m, headerBytes+len(payload))
			}
			return m, nil
		}
		c.in.err = err
	}
	select {
	case <-c.closing:
		return nil, ErrClosed
	default:
		return nil, err
	}
}

// Close writes what was sent, for a second at most if the peer does not read it, closes the
// channel, and waits for the writer. Frames that are unsent by then are dropped. It ends a Receive
// that waits. Every call returns the same error.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		c.flush()
		close(c.closing)
		if err := c.rw.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			c.closeErr = fmt.Errorf("ipc: close: %w", err)
		}
		c.wg.Wait()
	})
	return c.closeErr
}

// flush refuses what is sent from now on, and waits until what was sent before is written.
func (c *Conn) flush() {
	flushed := make(chan struct{})
	c.mu.Lock()
	c.err = ErrClosed
	c.roomLocked()
	if c.flushed = flushed; !c.taken {
		c.leaveLocked()
	}
	c.mu.Unlock()
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-flushed:
	case <-timer.C:
		c.mu.Lock()
		c.queue = nil
		c.mu.Unlock()
	}
}
