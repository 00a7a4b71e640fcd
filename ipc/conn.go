package ipc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// MaxQueueBytes bounds the frames that a [Conn] queues for a peer that does not read.
const MaxQueueBytes = 2 * MaxFrameBytes

// maxUnsentBytes is the amount of unsent data up to which SendWithRoom sends.
const maxUnsentBytes = 256 << 10

// flushTimeout bounds how long Close waits for a peer that does not read the queued frames.
const flushTimeout = time.Second

// defaultFrameBytes is the initial buffer size of a frame, in bytes: enough for most.
const defaultFrameBytes = 128

// A Conn is one end of a worker's channel. Any goroutine may call Send, but only one goroutine at a
// time may call Receive.
type Conn struct {
	rw        io.ReadWriteCloser
	tryWriter tryWriter // rw if it implements tryWriter; otherwise nil
	peer      Side
	reader    frameReader // Receive only

	log *slog.Logger // logs frames; nil logs nothing. Set before use

	writerTurn chan struct{} // signals the writer that it may write; capacity 1
	closing    chan struct{} // closed by Close
	closeOnce  sync.Once
	closeErr   error          // error of closing rw; valid once closeOnce is done
	wg         sync.WaitGroup // the writer

	roomMu sync.Mutex // held by the SendWithRoom call that waits for room

	mu          sync.Mutex
	roomSignal  chan struct{} // closed when there is room again; nil when no call waits; guarded by mu
	queue       [][]byte      // queued frames; the first may be partly written; guarded by mu
	unsentBytes int           // bytes in queue and in the frame being written; guarded by mu
	isWriting   bool          // a Send or the writer is writing; guarded by mu
	flushed     chan struct{} // closed when the queue is flushed; nil before Close; guarded by mu
	err         error         // the error of every further Send; guarded by mu
}

// tryWriter is an rw that can write without blocking: as much as fits now, possibly nothing.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// NewConn returns a Conn that uses rw; peer is the side at its other end. Closing rw must end its
// Read and Write, as it does for pipes and sockets. If rw has a method TryWrite(b []byte) (n int,
// err error), Send calls it, so that a frame does not wait for another goroutine. TryWrite must
// write as much as fits without blocking.
func NewConn(rw io.ReadWriteCloser, peer Side) *Conn {
	c := &Conn{
		rw:         rw,
		peer:       peer,
		reader:     frameReader{r: rw},
		writerTurn: make(chan struct{}, 1),
		closing:    make(chan struct{}),
	}
	c.tryWriter, _ = rw.(tryWriter)
	c.wg.Go(c.runWriter)
	return c
}

// Send sends m, or queues it if the peer is slow; it never waits for the peer. Messages arrive in
// the order of the calls. Send refuses a message that violates the protocol, with [ErrTooLarge] if
// the message is too large. With [ErrQueueFull], it refuses a message that does not fit into the
// queue of [MaxQueueBytes]. The connection remains usable. A nil error does not mean that the peer
// has read m.
func (c *Conn) Send(m Message) error {
	frame, err := AppendFrame(make([]byte, 0, defaultFrameBytes), m)
	if err != nil {
		return err
	}
	if messageTypes[m.Type()].from == c.peer {
		return fmt.Errorf("ipc: cannot send %s: it is for the other direction", m.Type())
	}
	if c.log != nil {
		c.logFrame(messageTypes[m.Type()].from, m, len(frame))
	}
	direct, err := c.enqueueFrame(frame)
	if !direct || err != nil {
		return err
	}
	n, err := c.tryWriter.TryWrite(frame)
	c.endDirectWrite(frame[n:], n, err)
	return c.sendError()
}

// SendWithRoom works like Send, but is for many or large messages. It waits while more than 256 KiB
// are unsent, so that other messages do not queue for long and the queue is never full. If the
// connection fails or is closed, it returns the error of Send.
func (c *Conn) SendWithRoom(m Message) error {
	c.roomMu.Lock()
	defer c.roomMu.Unlock()
	for {
		c.mu.Lock()
		if c.err != nil || c.unsentBytes <= maxUnsentBytes {
			c.mu.Unlock()
			return c.Send(m)
		}
		if c.roomSignal == nil {
			c.roomSignal = make(chan struct{})
		}
		room := c.roomSignal
		c.mu.Unlock()
		<-room
	}
}

// recordWrittenLocked records that n bytes were written, and the error if writing failed.
func (c *Conn) recordWrittenLocked(n int, err error) {
	c.unsentBytes -= n
	if err != nil {
		c.failLocked(fmt.Errorf("ipc: send: %w", err))
	}
	if c.unsentBytes <= maxUnsentBytes {
		c.signalRoomLocked()
	}
}

// signalRoomLocked wakes the waiting SendWithRoom.
func (c *Conn) signalRoomLocked() {
	if c.roomSignal != nil {
		close(c.roomSignal)
		c.roomSignal = nil
	}
}

// enqueueFrame queues a frame, unless direct is true: then the caller must write the frame
// itself.
func (c *Conn) enqueueFrame(frame []byte) (direct bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return false, c.err
	case c.unsentBytes+len(frame) > MaxQueueBytes:
		return false, ErrQueueFull
	}
	c.unsentBytes += len(frame)
	if !c.isWriting && c.tryWriter != nil {
		c.isWriting = true
		return true, nil
	}
	c.queue = append(c.queue, frame)
	if !c.isWriting {
		c.isWriting = true
		c.writerTurn <- struct{}{}
	}
	return false, nil
}

// endDirectWrite ends a direct write of n bytes. It queues the unwritten rest.
func (c *Conn) endDirectWrite(rest []byte, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordWrittenLocked(n, err)
	if err == nil && len(rest) > 0 {
		c.queue = append([][]byte{rest}, c.queue...)
	}
	if len(c.queue) == 0 {
		c.endWriteLocked()
		return
	}
	c.writerTurn <- struct{}{}
}

// endWriteLocked records that nothing is being written, because the queue is empty.
func (c *Conn) endWriteLocked() {
	c.isWriting = false
	if c.flushed != nil {
		close(c.flushed)
		c.flushed = nil
	}
}

// nextFrame returns the next frame for the writer, which has written n bytes of the previous one.
// nil means that the queue is empty and the writer must wait for its next turn.
func (c *Conn) nextFrame(n int, err error) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordWrittenLocked(n, err)
	if len(c.queue) == 0 {
		c.endWriteLocked()
		return nil
	}
	frame := c.queue[0]
	c.queue[0] = nil // otherwise the array keeps it in memory
	c.queue = c.queue[1:]
	return frame
}

func (c *Conn) runWriter() {
	for {
		select {
		case <-c.writerTurn:
		case <-c.closing:
			return
		}
		for frame := c.nextFrame(0, nil); frame != nil; {
			n, err := c.rw.Write(frame)
			frame = c.nextFrame(n, err)
		}
	}
}

func (c *Conn) sendError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// failLocked drops the queue and makes err the error of every further Send, unless one is
// already set.
func (c *Conn) failLocked(err error) {
	if c.err == nil {
		c.err = err
	}
	c.queue = nil
	c.signalRoomLocked()
}

// Receive waits for the next message. If the peer has closed its side, the error is io.EOF between
// two frames and io.ErrUnexpectedEOF inside one. It is a [*ProtocolError] for an invalid frame, and
// [ErrClosed] after Close. No message follows an error.
func (c *Conn) Receive() (Message, error) {
	payload, err := c.reader.nextPayload()
	if err == nil {
		var m Message
		if m, err = Decode(payload, c.peer); err == nil {
			if c.log != nil {
				c.logFrame(c.peer, m, headerBytes+len(payload))
			}
			return m, nil
		}
		c.reader.err = err
	}
	select {
	case <-c.closing:
		return nil, ErrClosed
	default:
		return nil, err
	}
}

// Close writes the queued frames, for at most a second if the peer does not read, closes the
// channel, and waits for the writer. Frames that are still unsent are dropped. It ends a
// waiting Receive. Every call returns the same error.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		c.waitFlushed()
		close(c.closing)
		if err := c.rw.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			c.closeErr = fmt.Errorf("ipc: close: %w", err)
		}
		c.wg.Wait()
	})
	return c.closeErr
}

// waitFlushed refuses further frames and waits until the queued ones are written.
func (c *Conn) waitFlushed() {
	flushed := make(chan struct{})
	c.mu.Lock()
	c.err = ErrClosed
	c.signalRoomLocked()
	if c.flushed = flushed; !c.isWriting {
		c.endWriteLocked()
	}
	c.mu.Unlock()
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-flushed:
	case <-timer.C:
		c.mu.Lock()
		c.queue = nil
		c.mu.Unlock()
	}
}
