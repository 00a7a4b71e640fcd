package jsonrpc2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// MaxQueuedBytes bounds the lines in the write queue, in bytes; one line of the largest size may
	// exceed it. Above it the connection is dropped. From SoftMaxQueuedBytes on, senders that can
	// wait do so: calls, and notifications such as those of an event stream.
	MaxQueuedBytes     = 64 << 20
	SoftMaxQueuedBytes = 1 << 20

	// MaxRequestBytes bounds a request with an input, in bytes. The largest input fits, even
	// escaped.
	MaxRequestBytes = 160 << 20

	// MaxBufferBytes bounds the bytes that follow a line.
	MaxBufferBytes = 1 << 20
)

// ErrClosed is the cause of the end when one side has closed the connection.
var ErrClosed = errors.New("the connection is closed")

// An EndedError means that a call got no answer because the connection ended.
type EndedError struct{ Cause error }

func (e *EndedError) Error() string { return "the connection ended: " + e.Cause.Error() }
func (e *EndedError) Unwrap() error { return e.Cause }

// A SizeError means that a call was not sent because its line, or what follows it, is too long for the
// other side.
type SizeError struct{ Bytes, Max int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the request has %d bytes; at most %d are allowed", e.Bytes, e.Max)
}

// Options configure a Conn; MaxLine and StallTimeout are required in each.
type Options struct {
	// MaxLine bounds a line of the other side, in bytes.
	MaxLine int

	// MaxSend bounds a line that this side sends, in bytes; 0 means MaxLine. Longer lines are not
	// sent.
	MaxSend int

	// StallTimeout is how long the other side may leave a line unread before the connection is
	// dropped.
	StallTimeout time.Duration

	// CancelTimeout bounds how long a cancelled call waits for its answer. 0 means that the other
	// side does not answer cancelled calls.
	CancelTimeout time.Duration

	// Probe is a method that the other side answers at once. While a call waits, the Conn calls it
	// after ProbeInterval without data, and drops the connection after as long again. "" means no
	// probe.
	Probe         string
	ProbeInterval time.Duration

	// KeepAlive is a method that the other side answers at once. While a call waits, or a hold of
	// [Conn.AddKeepAlive] is in force, the Conn calls it after KeepAliveInterval without a byte. It
	// drops the connection after as long again. Use it instead of Probe for transports on which an
	// end may go unnoticed. "" means none.
	KeepAlive         string
	KeepAliveInterval time.Duration

	// Heartbeat is a method that the other side answers at once. The Conn calls it whenever it has
	// sent nothing for HeartbeatInterval. Use it for transports whose other side ends when it hears
	// nothing. "" means none.
	Heartbeat         string
	HeartbeatInterval time.Duration

	// OnMessage handles requests and notifications, in order. It must not block. It answers a
	// request with SendResult or SendError, now or later. nil means that there are no methods.
	OnMessage func(m *Message)

	// OnMalformed handles a line that is not a message. line is nil if it was too long. nil drops
	// the connection.
	OnMalformed func(line []byte, p *Problem)
}

// A Conn is this side of a connection. It makes calls and receives them. It is safe for concurrent
// use, except for Read.
type Conn struct {
	options Options
	stream  io.ReadWriteCloser
	ctx     context.Context
	stop    context.CancelCauseFunc
	created time.Time

	wake    chan struct{} // holds one token when there is a line to write, or the Conn has ended
	written chan struct{} // closed when the writer has ended

	freeBuffers sync.Pool // of *[MaxBufferBytes]byte

	lastID       atomic.Uint64               // the id of the last call
	lastActivity atomic.Int64                // when bytes last moved, in nanoseconds since created
	log          atomic.Pointer[slog.Logger] // nil logs nothing

	mu             sync.Mutex
	calls          map[string]chan answer // guarded by mu; calls of this side without an answer, by id
	endedErr       *EndedError            // guarded by mu; why no more answers can come
	probeSent      time.Time              // guarded by mu; when the probe was sent; zero after data has come
	keepAliveHolds int                    // guarded by mu; the holds of AddKeepAlive
	wantedSince    time.Time              // guarded by mu; start time of the first call or hold; zero without one
	lastAsked      time.Time              // guarded by mu; when KeepAlive was last called
	aliveTimer     *time.Timer            // guarded by mu; runs checkAlive; nil before the first call or hold
	heartbeat      heartbeat              // guarded by mu
	queue          []outgoing             // guarded by mu; lines to write
	queued         int                    // guarded by mu; bytes in queue and in the current write
	finished       bool                   // guarded by mu; no more lines are queued
	dropCause      error                  // guarded by mu; why the connection was dropped; nil if it was not
	roomFreed      chan struct{}          // guarded by mu; closed when the queue has room; nil unless a sender waits for it
}

// A heartbeat is a call that shows that this side is alive.
type heartbeat struct {
	lastSent time.Time   // when a line was last queued
	timer    *time.Timer // runs sendHeartbeat; nil without Options.Heartbeat
}

// An answer is the result of a call, or its error.
type answer struct {
	Answer
	err error
}

// An outgoing message is its line, without a newline, and the bytes that follow it.
type outgoing struct{ line, buffer []byte }

func (o outgoing) size() int { return len(o.line) + len("\n") + len(o.buffer) }

// New returns a Conn. It starts to write at once, and reads when Read is called.
func New(stream io.ReadWriteCloser, o *Options) *Conn {
	c := &Conn{
		options: *o, stream: stream, created: time.Now(),
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
		calls:   make(map[string]chan answer),
	}
	if c.options.MaxSend == 0 {
		c.options.MaxSend = c.options.MaxLine
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	if c.options.Heartbeat != "" {
		c.mu.Lock() // sendHeartbeat may run before New returns
		c.heartbeat = heartbeat{c.created, time.AfterFunc(c.options.HeartbeatInterval, c.sendHeartbeat)}
		c.mu.Unlock()
	}
	go c.write()
	return c
}

// Context returns a context that ends when reading ends. Its cause is ErrClosed, or the reason for
// which the connection was dropped.
func (c *Conn) Context() context.Context { return c.ctx }

// Stream returns the stream of the connection.
func (c *Conn) Stream() io.ReadWriteCloser { return c.stream }

// LogTo makes the Conn log each line at debug, in both directions: its method, id and size, never
// its contents.
func (c *Conn) LogTo(l *slog.Logger) { c.log.Store(l) }

// maxLoggedBytes bounds how much of a method and of an id is logged, in bytes.
const maxLoggedBytes = 64

// LogLine logs a line at debug: its method, id and size, never its contents. A nil logger logs
// nothing.
func LogLine(l *slog.Logger, what string, line []byte) {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	m, err := Decode(line)
	if err != nil {
		m = &Message{} // a control line, or a malformed one
	}
	l.Debug(what, "method", m.Method[:min(len(m.Method), maxLoggedBytes)], "id", string(m.ID[:min(len(m.ID), maxLoggedBytes)]), "bytes", len(bytes.TrimSuffix(line, []byte("\n"))))
}

// ---- reading

// Read reads lines until the stream ends. Calls that have no answer by then fail. Queued lines are
// still written, until FinishWriting.
func (c *Conn) Read() error {
	lines := NewReader(activityReader{c}, c.options.MaxLine)
	for {
		line, err := lines.Next()
		switch tooLong := (*TooLongError)(nil); {
		case errors.As(err, &tooLong):
			c.handleMalformed(nil, &Problem{Code: CodeInvalidRequest, ID: tooLong.ID, Text: tooLong.Error()})
		case err != nil:
			return c.failCallsAtEnd(err)
		case len(bytes.TrimSpace(line)) > 0:
			if err := c.handleLine(line, lines); err != nil {
				return c.failCallsAtEnd(err)
			}
		}
	}
}

// failCallsAtEnd fails all calls after reading has ended.
func (c *Conn) failCallsAtEnd(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropCause != nil {
		why = c.dropCause
	}
	c.stop(ErrClosed) // before the calls fail, so that no retry uses this connection
	c.failCallsLocked(why)
	return why
}

// handleLine passes one line, with the bytes that follow it, to the code that handles it. It returns
// an error if it does not know where the next line begins.
func (c *Conn) handleLine(line []byte, in *Reader) error {
	LogLine(c.log.Load(), "line received", line)
	m, err := Decode(line)
	problem, _ := errors.AsType[*Problem](err)
	if !utf8.Valid(line) {
		problem = &Problem{Code: CodeParse, Text: "not JSON: the line is not valid UTF-8"}
	}
	if problem != nil {
		c.handleMalformed(line, problem)
		return nil
	}
	switch n, err := m.bufferSize(); {
	case err != nil:
		c.handleMalformed(line, &Problem{Code: CodeInvalidRequest, ID: m.ID, Text: err.Error()})
		return err
	case n > 0:
		m.Buffer = c.newBuffer(n)
		if err := in.readFull(m.Buffer); err != nil {
			return err
		}
	}
	switch {
	case m.Method == "":
		c.deliverAnswer(m)
	case c.options.OnMessage != nil:
		c.options.OnMessage(m)
	case m.IsRequest():
		_ = c.SendError(m.ID, &Error{Code: CodeMethodNotFound, Message: "method not found: " + strconv.Quote(m.Method)})
	}
	return nil
}

// newBuffer returns memory for the bytes of a message. Large buffers are used again, because
// without that a transfer of a file takes a third longer.
func (c *Conn) newBuffer(n int) []byte {
	if n < MaxBufferBytes/2 {
		return make([]byte, n)
	}
	if b, ok := c.freeBuffers.Get().(*[MaxBufferBytes]byte); ok {
		return b[:n]
	}
	return make([]byte, n, MaxBufferBytes)
}

// Recycle lets another message use the memory of a [Message.Buffer]. Nobody may use the buffer later.
func (c *Conn) Recycle(buffer []byte) {
	if cap(buffer) == MaxBufferBytes {
		c.freeBuffers.Put((*[MaxBufferBytes]byte)(buffer[:MaxBufferBytes]))
	}
}

func (c *Conn) handleMalformed(line []byte, p *Problem) {
	if c.options.OnMalformed == nil {
		c.Drop(fmt.Errorf("malformed message: %s (%.100q)", p.Text, line))
		return
	}
	c.options.OnMalformed(line, p)
}

// deliverAnswer passes an answer to its call. It ignores an answer without a call.
func (c *Conn) deliverAnswer(m *Message) {
	a := answer{Answer: Answer{m.Result, m.Buffer}}
	if m.Error != nil {
		e := &Error{Code: CodeInternal, Message: string(m.Error)}
		_ = json.Unmarshal(m.Error, e)
		a.err = e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.calls[string(m.ID)]; waiting != nil {
		delete(c.calls, string(m.ID))
		waiting <- a
	}
	c.updateWantedLocked()
}

// StopReading ends Read as if the other side had closed its end. Queued lines are still written, if
// the stream can stop reading alone.
func (c *Conn) StopReading(cause error) {
	c.stop(cause)
	if half, ok := c.stream.(interface{ CloseRead() error }); ok {
		_ = half.CloseRead()
		return
	}
	if d, ok := c.stream.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Now()) == nil {
		return
	}
	_ = c.stream.Close()
}

// ---- writing

// SendResult answers a request. A result that is Buffered has bytes that follow its line. SendResult
// returns an error if it cannot encode or send the result; use SendError then.
func (c *Conn) SendResult(id json.RawMessage, result any) error {
	o, err := c.encodeResult(id, result)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.sendLocked(o) // a broken connection needs no answer
	return nil
}

func (c *Conn) encodeResult(id json.RawMessage, result any) (o outgoing, err error) {
	result, o.buffer = splitBuffer(result)
	raw, err := json.Marshal(result)
	if err != nil {
		return o, err
	}
	if o.line = withBuffer(ResultLine(id, raw), o.buffer); len(o.line) > c.options.MaxSend {
		return o, fmt.Errorf("the answer has %d bytes; at most %d are allowed", len(o.line), c.options.MaxSend)
	}
	return o, nil
}

// SendResultWhenRoom is SendResult for results that can wait, because they are large: it blocks while
// SoftMaxQueuedBytes or more are queued, until ctx ends.
func (c *Conn) SendResultWhenRoom(ctx context.Context, id json.RawMessage, result any) error {
	o, err := c.encodeResult(id, result)
	if err != nil {
		return err
	}
	if err := c.lockWithRoom(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	_ = c.sendLocked(o) // a broken connection needs no answer
	return nil
}

// SendError answers a request with an error object. A nil id stands for a request whose id could
// not be read.
func (c *Conn) SendError(id json.RawMessage, failure any) error {
	raw, err := json.Marshal(failure)
	if err == nil {
		_ = c.Send(ErrorLine(id, raw))
	}
	return err
}

// Notify queues a notification without waiting. It fails if the connection is closed, or was
// dropped because the other side does not read.
func (c *Conn) Notify(method string, params any) error {
	line, err := NotificationLine(method, params)
	if err != nil {
		return err
	}
	return c.Send(line)
}

// NotifyWhenRoom is Notify for notifications that can wait: it blocks while SoftMaxQueuedBytes or
// more are queued, until ctx ends.
func (c *Conn) NotifyWhenRoom(ctx context.Context, method string, params any) error {
	line, err := NotificationLine(method, params)
	if err != nil {
		return err
	}
	if err := c.lockWithRoom(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock() // so waiting senders continue one by one
	return c.sendLocked(outgoing{line: line})
}

// lockWithRoom locks c.mu when the queue has room, or accepts no more lines. When ctx ends, it
// returns an error without the lock.
func (c *Conn) lockWithRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.queued < SoftMaxQueuedBytes || c.dropCause != nil || c.finished {
			return nil
		}
		if c.roomFreed == nil {
			c.roomFreed = make(chan struct{})
		}
		room := c.roomFreed
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Send queues a line of JSON. The Conn keeps the slice.
func (c *Conn) Send(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(outgoing{line: line})
}

// sendLocked queues a message, or drops the connection if the queue is full. The caller holds c.mu.
func (c *Conn) sendLocked(o outgoing) error {
	switch {
	case c.dropCause != nil:
		return c.dropCause
	case c.finished:
		return ErrClosed
	case c.queued+o.size() > MaxQueuedBytes+c.options.MaxSend:
		c.dropLocked(fmt.Errorf("the other side does not read; %d bytes are queued", c.queued))
		return c.dropCause
	}
	if c.heartbeat.timer != nil {
		c.heartbeat.lastSent = time.Now()
	}
	c.queue = append(c.queue, o)
	c.queued += o.size()
	c.wakeWriter()
	return nil
}

// FinishWriting waits until all queued lines are written, and closes the stream. If the connection
// was dropped, it returns the reason.
func (c *Conn) FinishWriting() error {
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	c.wakeWriter()
	<-c.written
	_ = c.stream.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropCause
}

// Drop ends the connection at once. Queued lines are discarded, and calls fail.
func (c *Conn) Drop(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(why)
}

func (c *Conn) dropLocked(why error) {
	if c.dropCause != nil {
		return
	}
	c.dropCause = why
	for _, t := range []*time.Timer{c.aliveTimer, c.heartbeat.timer} {
		if t != nil {
			t.Stop()
		}
	}
	c.queue, c.queued = nil, 0
	c.stop(why)
	c.failCallsLocked(why)
	c.signalRoomLocked()
	_ = c.stream.Close() // makes Read and the writer fail
	c.wakeWriter()
}

// signalRoomLocked wakes the senders that wait for room. The caller holds c.mu.
func (c *Conn) signalRoomLocked() {
	if c.roomFreed != nil {
		close(c.roomFreed)
		c.roomFreed = nil
	}
}

func (c *Conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes the queued lines until FinishWriting or Drop.
func (c *Conn) write() {
	defer close(c.written)
	for range c.wake {
		c.mu.Lock()
		messages, over := c.queue, c.finished || c.dropCause != nil
		c.queue = nil
		c.mu.Unlock()
		for _, o := range messages {
			if err := c.writeMessage(o); err != nil {
				c.Drop(err)
				return
			}
			c.mu.Lock()
			c.queued -= o.size()
			if c.queued < SoftMaxQueuedBytes {
				c.signalRoomLocked()
			}
			c.mu.Unlock()
		}
		if over {
			return
		}
	}
}

// maxWriteBytes bounds one write to the stream, in bytes.
const maxWriteBytes = 64 << 10

// writeMessage writes one message. It fails if the other side reads no further part of it within
// StallTimeout.
func (c *Conn) writeMessage(o outgoing) error {
	LogLine(c.log.Load(), "line sent", o.line)
	watchdog := time.AfterFunc(c.options.StallTimeout, func() {
		c.Drop(fmt.Errorf("the other side does not read; a write has blocked for %s", c.options.StallTimeout))
	})
	defer watchdog.Stop()
	for _, rest := range [][]byte{append(o.line, '\n'), o.buffer} {
		for len(rest) > 0 {
			part := rest[:min(len(rest), maxWriteBytes)]
			if _, err := c.stream.Write(part); err != nil {
				return err
			}
			if rest = rest[len(part):]; len(rest) > 0 {
				c.noteActivity() // answers of the other side may come only after the rest of this message
				watchdog.Reset(c.options.StallTimeout)
			}
		}
	}
	return nil
}
