package jsonline

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
	// MaxQueued bounds the lines that wait to be written, in bytes, beside one of the largest.
	// Above it the connection is dropped. From RoomQueued on, what may wait does so: calls, and
	// notifications such as those of a stream of events.
	MaxQueued  = 64 << 20
	RoomQueued = 1 << 20

	// MaxRequest bounds a request that has an input, in bytes. The largest input fits, even escaped.
	MaxRequest = 160 << 20
)

// ErrClosed is the cause when one side has closed the connection.
var ErrClosed = errors.New("the connection is closed")

// An EndedError means that a call got no answer because the connection ended.
type EndedError struct{ Why error }

func (e *EndedError) Error() string { return "the connection ended: " + e.Why.Error() }
func (e *EndedError) Unwrap() error { return e.Why }

// A SizeError means that a call was not sent because its line is too long for the other side.
type SizeError struct{ Bytes, Max int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the request has %d bytes, and at most %d fit", e.Bytes, e.Max)
}

// Options configure a Conn. MaxLine and StallLimit are required.
type Options struct {
	// MaxLine bounds a line of the other side, in bytes.
	MaxLine int

	// MaxSend bounds a line of ours, in bytes; 0 is MaxLine. Longer ones are not sent.
	MaxSend int

	// StallLimit bounds how long the other side may leave a line unread before the
	// connection is dropped.
	StallLimit time.Duration

	// LastWord bounds how long a cancelled call waits for its answer. 0 means that the other
	// side does not answer cancelled calls.
	LastWord time.Duration

	// Probe is a method that the other side answers at once. The Conn calls it when a call
	// waits and nothing has come for ProbeTime. If nothing comes for as long again, the Conn
	// drops the connection. "" means no probe.
	Probe     string
	ProbeTime time.Duration

	// KeepAlive is a method that the other side answers at once. While a call waits, or Hold
	// is in force, the Conn calls it when no byte has come for KeepAliveTime, and drops the
	// connection when none comes for as long again. It is for ways on which an end may go
	// unnoticed, instead of Probe. "" means none.
	KeepAlive     string
	KeepAliveTime time.Duration

	// Sign is a method that the other side answers at once. The Conn calls it when it has sent
	// nothing for SignTime, wanted or not and whatever comes: it is for ways whose other side ends
	// when it hears nothing. "" means none.
	Sign     string
	SignTime time.Duration

	// Message handles requests and notifications, in order. It must not wait. It answers a
	// request with Answer, now or later. nil means that there are no methods.
	Message func(m *Message)

	// Malformed handles a line that is not a message. line is empty if it was too long. nil
	// drops the connection.
	Malformed func(line []byte, p *Problem)
}

// A Conn is one side of a connection. It is safe for concurrent use, except for Read.
type Conn struct {
	o      Options
	stream io.ReadWriteCloser
	ctx    context.Context
	stop   context.CancelCauseFunc
	born   time.Time

	wake    chan struct{} // holds one token when there is a line to write, or the Conn has ended
	written chan struct{} // closed when the writer has ended

	last  atomic.Uint64               // the last id
	heard atomic.Int64                // when bytes last moved, in nanoseconds since born
	log   atomic.Pointer[slog.Logger] // nil logs nothing

	mu     sync.Mutex
	calls  map[string]chan answer // guarded by mu; our calls that wait for an answer
	over   *EndedError            // guarded by mu; why no more answers will come
	probed time.Time              // guarded by mu; when the probe was sent; zero once something has come
	held   int                    // guarded by mu; what wants the connection besides calls
	wanted time.Time              // guarded by mu; since when something wants the connection; zero when nothing does
	asked  time.Time              // guarded by mu; when the other side was asked last whether it is there
	alive  *time.Timer            // guarded by mu; looks whether the other side is there; nil before the first time
	sent   time.Time              // guarded by mu; when a line was queued last
	signs  *time.Timer            // guarded by mu; sends signs; nil if there are none
	queue  [][]byte               // guarded by mu; lines to be written
	queued int                    // guarded by mu; bytes in queue and in the current write
	ended  bool                   // guarded by mu; no more lines are queued
	broken error                  // guarded by mu; why no more lines are written
	room   chan struct{}          // guarded by mu; closed when there is room; nil when nobody waits
}

type answer struct {
	result json.RawMessage
	err    error
}

// New makes a Conn. It starts to write at once, and reads when Read is called.
func New(stream io.ReadWriteCloser, o *Options) *Conn {
	c := &Conn{
		o: *o, stream: stream, born: time.Now(),
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
		calls:   make(map[string]chan answer),
	}
	if c.o.MaxSend == 0 {
		c.o.MaxSend = c.o.MaxLine
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	if c.o.Sign != "" {
		c.mu.Lock() // sign may run before this has returned
		c.sent, c.signs = c.born, time.AfterFunc(c.o.SignTime, c.sign)
		c.mu.Unlock()
	}
	go c.write()
	return c
}

// Context ends when reading ends. Its cause is ErrClosed, or the reason why the connection was
// dropped.
func (c *Conn) Context() context.Context { return c.ctx }

// Stream returns the stream of the connection.
func (c *Conn) Stream() io.ReadWriteCloser { return c.stream }

// LogTo logs each line at debug, in both directions: its method, id and size, never its
// contents.
func (c *Conn) LogTo(l *slog.Logger) { c.log.Store(l) }

// maxLogged bounds how much of the other side's own words a log gets, in bytes.
const maxLogged = 64

// Log logs a line at debug: its method, id and size, never its contents. A nil l logs nothing.
func Log(l *slog.Logger, what string, line []byte) {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	m, err := Decode(line)
	if err != nil {
		m = &Message{} // a control line, or a malformed one
	}
	l.Debug(what, "method", m.Method[:min(len(m.Method), maxLogged)], "id", string(m.ID[:min(len(m.ID), maxLogged)]), "bytes", len(bytes.TrimSuffix(line, []byte("\n"))))
}

// ---- reading

// Read reads lines until the stream ends. Calls without an answer by then fail. Queued lines
// are still written, until Finish.
func (c *Conn) Read() error {
	lines := NewReader(hearing{c}, c.o.MaxLine)
	for {
		line, err := lines.Next()
		switch long := (*TooLongError)(nil); {
		case errors.As(err, &long):
			c.malformed(nil, &Problem{Code: CodeInvalidRequest, ID: long.ID, Text: long.Error()})
		case err != nil:
			return c.readAll(err)
		case len(bytes.TrimSpace(line)) > 0:
			c.take(line)
		}
	}
}

// readAll ends all calls after reading has ended.
func (c *Conn) readAll(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		why = c.broken
	}
	c.stop(ErrClosed) // before the calls fail: who makes one again must not take this connection
	c.failCallsLocked(why)
	return why
}

// take handles one line.
func (c *Conn) take(line []byte) {
	Log(c.log.Load(), "line received", line)
	m, err := Decode(line)
	problem, _ := errors.AsType[*Problem](err)
	if !utf8.Valid(line) {
		problem = &Problem{Code: CodeParse, Text: "not JSON: it is not UTF-8"}
	}
	switch {
	case problem != nil:
		c.malformed(line, problem)
	case m.Method == "":
		c.answered(m)
	case c.o.Message != nil:
		c.o.Message(m)
	case m.IsRequest():
		_ = c.Fail(m.ID, &Error{Code: CodeMethodNotFound, Message: "there is no method " + strconv.Quote(m.Method)})
	}
}

func (c *Conn) malformed(line []byte, p *Problem) {
	if c.o.Malformed == nil {
		c.Drop(fmt.Errorf("what came is no message: %s (%.100q)", p.Text, line))
		return
	}
	c.o.Malformed(line, p)
}

// answered hands an answer to its call. It ignores an answer that belongs to no call.
func (c *Conn) answered(m *Message) {
	a := answer{result: m.Result}
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
	c.wantLocked()
}

// StopReading ends Read as if the other side had closed its direction. Queued lines are still
// written, if the stream can be closed in one direction only.
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

// ---- calling

// Call calls a method of the other side. The error is an *Error from the answer, an *EndedError,
// or that of ctx. When ctx ends, the other side gets a cancel.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p, line, err := c.prepare(method, params)
	if err != nil {
		return nil, err
	}
	if err := c.lockWithRoom(ctx); err != nil {
		return nil, ctx.Err()
	}
	err = c.beginLocked(p, line)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.Await(ctx, p)
}

// A Pending is a call that is sent.
type Pending struct {
	id       string
	answered chan answer
}

// Await waits for the answer to a call, as Call.
func (c *Conn) Await(ctx context.Context, p *Pending) (json.RawMessage, error) {
	id, answered := p.id, p.answered
	if a, ok := c.await(ctx, answered); ok {
		if ended := (*EndedError)(nil); errors.As(a.err, &ended) && ctx.Err() != nil {
			return nil, ctx.Err() // if ctx ended, that may also have ended the connection
		}
		return a.result, a.err
	}
	_ = c.Notify(MethodCancelled, map[string]json.RawMessage{"requestId": json.RawMessage(id)})
	last := time.NewTimer(c.o.LastWord)
	defer last.Stop()
	// The other side answers either the cancel or, if it had finished already, the call
	// itself.
	select {
	case a := <-answered:
		if a.err == nil {
			return a.result, nil
		}
	case <-last.C:
		c.mu.Lock()
		delete(c.calls, id)
		c.wantLocked()
		c.mu.Unlock()
	}
	return nil, ctx.Err()
}

// Begin sends a call, without waiting. The caller awaits its answer.
func (c *Conn) Begin(method string, params any) (*Pending, error) {
	p, line, err := c.prepare(method, params)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p, c.beginLocked(p, line)
}

// prepare makes a call and its line.
func (c *Conn) prepare(method string, params any) (*Pending, []byte, error) {
	p := &Pending{id: strconv.FormatUint(c.last.Add(1), 10), answered: make(chan answer, 1)}
	line, err := requestLine(p.id, method, params)
	if err == nil && len(line) > c.o.MaxSend {
		err = &SizeError{len(line), c.o.MaxSend}
	}
	return p, line, err
}

func (c *Conn) beginLocked(p *Pending, line []byte) error {
	if c.over != nil {
		return c.over
	}
	c.calls[p.id] = p.answered
	if err := c.sendLocked(line); err != nil {
		delete(c.calls, p.id)
		return &EndedError{err}
	}
	c.wantLocked()
	return nil
}

// await waits for the other side's answer, or the end of the connection. It returns false when
// ctx ends.
func (c *Conn) await(ctx context.Context, answered <-chan answer) (answer, bool) {
	var tick <-chan time.Time
	if c.o.Probe != "" {
		ticker := time.NewTicker(c.o.ProbeTime)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case a := <-answered:
			return a, true
		case <-ctx.Done():
			return answer{}, false
		case now := <-tick:
			c.probe(now)
		}
	}
}

// probe sends a probe when nothing has come for long. It drops the connection if nothing has
// come since the last probe.
func (c *Conn) probe(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.Heard()
	switch {
	case now.Sub(heard) < c.o.ProbeTime:
		c.probed = time.Time{}
	case c.probed.IsZero() || !heard.Before(c.probed):
		c.probed = now
		line, err := requestLine(`"probe"`, c.o.Probe, nil)
		if err == nil {
			_ = c.sendLocked(line) // if the connection is broken, the call has failed already
		}
	case now.Sub(c.probed) >= c.o.ProbeTime:
		c.dropLocked(fmt.Errorf("it has not answered for %s", c.o.ProbeTime))
	}
}

func (c *Conn) failCallsLocked(why error) {
	if c.over != nil {
		return
	}
	c.over = &EndedError{why}
	for id, answered := range c.calls {
		delete(c.calls, id)
		answered <- answer{err: c.over}
	}
}

// ---- writing

// Answer answers a request. It returns an error if it cannot encode the result: use Fail then.
func (c *Conn) Answer(id json.RawMessage, result any) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	line := ResultLine(id, raw)
	if len(line) > c.o.MaxSend {
		return fmt.Errorf("the answer of %d bytes is over the bound of %d", len(line), c.o.MaxSend)
	}
	_ = c.Send(line) // a broken connection takes no answer
	return nil
}

// Fail answers a request with an error object. A nil id stands for a request whose id could
// not be read.
func (c *Conn) Fail(id json.RawMessage, failure any) error {
	raw, err := json.Marshal(failure)
	if err == nil {
		_ = c.Send(ErrorLine(id, raw))
	}
	return err
}

// Notify sends a notification, without waiting. It fails when the connection is closed, or was
// dropped because the other side does not read.
func (c *Conn) Notify(method string, params any) error {
	line, err := NotificationLine(method, params)
	if err != nil {
		return err
	}
	return c.Send(line)
}

// NotifyWhenRoom is Notify for notifications that may wait: it waits while RoomQueued or more is
// queued, until ctx ends.
func (c *Conn) NotifyWhenRoom(ctx context.Context, method string, params any) error {
	line, err := NotificationLine(method, params)
	if err != nil {
		return err
	}
	if err := c.lockWithRoom(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock() // waiters get in one by one
	return c.sendLocked(line)
}

// lockWithRoom takes c.mu when there is room in the queue, or when no line is taken any more. It
// fails, without the lock, when ctx ends.
func (c *Conn) lockWithRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.queued < RoomQueued || c.broken != nil || c.ended {
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Send queues a line of JSON, and keeps the slice.
func (c *Conn) Send(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(line)
}

func (c *Conn) sendLocked(line []byte) error {
	switch {
	case c.broken != nil:
		return c.broken
	case c.ended:
		return ErrClosed
	case c.queued+len(line) > MaxQueued+c.o.MaxSend:
		c.dropLocked(fmt.Errorf("it does not read: %d bytes wait for it", c.queued))
		return c.broken
	}
	if c.signs != nil {
		c.sent = time.Now()
	}
	c.queue = append(c.queue, append(line, '\n'))
	c.queued += len(line) + 1
	c.nudge()
	return nil
}

// Finish waits until all queued lines are written, and closes the stream. If the connection
// was dropped, it returns the reason.
func (c *Conn) Finish() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.nudge()
	<-c.written
	_ = c.stream.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Drop ends the connection at once. Queued lines are lost, and calls fail.
func (c *Conn) Drop(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(why)
}

func (c *Conn) dropLocked(why error) {
	if c.broken != nil {
		return
	}
	c.broken = why
	for _, t := range []*time.Timer{c.alive, c.signs} {
		if t != nil {
			t.Stop()
		}
	}
	c.queue, c.queued = nil, 0
	c.stop(why)
	c.failCallsLocked(why)
	c.roomLocked()
	_ = c.stream.Close() // now Read and the writer fail
	c.nudge()
}

func (c *Conn) roomLocked() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

func (c *Conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes the queued lines, several at once if possible.
func (c *Conn) write() {
	defer close(c.written)
	for range c.wake {
		c.mu.Lock()
		lines, over := c.queue, c.ended || c.broken != nil
		c.queue = nil
		c.mu.Unlock()
		for _, line := range lines {
			if err := c.writeLine(line); err != nil {
				c.Drop(err)
				return
			}
			c.mu.Lock()
			c.queued -= len(line)
			if c.queued < RoomQueued {
				c.roomLocked()
			}
			c.mu.Unlock()
		}
		if over {
			return
		}
	}
}

// maxWrite bounds one write of a line, in bytes.
const maxWrite = 64 << 10

// writeLine writes one line. It fails if the other side takes nothing more of the line within
// the limit.
func (c *Conn) writeLine(line []byte) error {
	Log(c.log.Load(), "line sent", line)
	watchdog := time.AfterFunc(c.o.StallLimit, func() {
		c.Drop(fmt.Errorf("it does not read: a line has waited for it for %s", c.o.StallLimit))
	})
	defer watchdog.Stop()
	for len(line) > maxWrite {
		if _, err := c.stream.Write(line[:maxWrite]); err != nil {
			return err
		}
		line = line[maxWrite:]
		c.hear() // its answer waits behind the rest
		watchdog.Reset(c.o.StallLimit)
	}
	_, err := c.stream.Write(line)
	return err
}
