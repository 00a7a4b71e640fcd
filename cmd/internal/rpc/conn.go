package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// MaxLine bounds a line in both directions, in bytes. A longer one is answered
	// with an error and skipped.
	MaxLine = 16 << 20

	// maxCalls bounds the calls that one connection has under way.
	maxCalls = 256

	// maxQueued bounds what waits to be written to one client, in bytes: its
	// connection is dropped beyond it. A notification that may wait, as those of a
	// stream of events may, stops at roomQueued.
	maxQueued  = 64 << 20
	roomQueued = 1 << 20

	stallLimit = 30 * time.Second
)

// Why a call's context ended.
var (
	ErrCancelled = errors.New("rpc: the caller cancelled the request")
	ErrClosed    = errors.New("rpc: the connection is closed")
)

// A Conn is one client's connection. It is safe for concurrent use.
type Conn struct {
	server *Server
	stream io.ReadWriteCloser
	wg     sync.WaitGroup // of calls

	ctx  context.Context // of all calls
	stop context.CancelCauseFunc

	mu      sync.Mutex
	calls   map[string]*Request // guarded by mu: under way, by key
	queue   [][]byte            // guarded by mu: lines
	queued  int                 // guarded by mu: bytes in queue and in the write under way
	ended   bool                // guarded by mu: nothing is queued any more
	broken  error               // guarded by mu: why nothing is written any more
	wake    chan struct{}       // holds one: there is something to write, or ended
	room    chan struct{}       // guarded by mu: closed when there is room; nil when nobody waits
	written chan struct{}       // closed when the writer has ended
}

func newConn(s *Server, stream io.ReadWriteCloser) *Conn {
	c := &Conn{
		server: s, stream: stream,
		calls:   make(map[string]*Request),
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c
}

// Context ends when the connection does.
func (c *Conn) Context() context.Context { return c.ctx }

// Stream is what the connection goes over.
func (c *Conn) Stream() io.ReadWriteCloser { return c.stream }

// HangUp ends the connection as if its client had said all that it had to say: what is
// queued is still written.
func (c *Conn) HangUp() { c.closeReading(ErrClosed) }

func (c *Conn) serve(ctx context.Context) error {
	over := func() {}
	if c.server.Opened != nil {
		over = c.server.Opened(c)
	}
	go c.write()
	defer context.AfterFunc(ctx, func() { c.closeReading(context.Cause(ctx)) })()
	err := c.read()
	c.stop(ErrClosed)
	over()
	c.wg.Wait()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.nudge()
	<-c.written
	_ = c.stream.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		err = c.broken
	}
	if err == nil || vanished(err) || ctx.Err() != nil {
		return nil
	}
	return err
}

// closeReading has the reader end. What is queued is still written, if the
// stream can be closed in one direction only.
func (c *Conn) closeReading(cause error) {
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

// vanished reports whether err only says that the client is gone.
func vanished(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// ---- reading

var errLineTooLong = errors.New("rpc: line too long")

func (c *Conn) read() error {
	r := bufio.NewReaderSize(c.stream, 64<<10)
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, errLineTooLong):
			c.answer(nil, nil, Errorf(CodeInvalidRequest, KindRequest, "a line of more than %d bytes was skipped", MaxLine))
		case err != nil:
			return err
		default:
			c.line(line)
		}
	}
}

// readLine reads one line without its newline. One that is too long is skipped.
// What stands at the end of a stream without a newline is no line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong && len(line)+len(part) > MaxLine+1 {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case tooLong:
			return nil, errLineTooLong
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// line takes in one line: a request, a notification, or something to refuse.
func (c *Conn) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !utf8.Valid(line) {
		c.answer(nil, nil, Errorf(CodeParse, KindParse, "the line is not UTF-8"))
		return
	}
	if !json.Valid(line) {
		c.answer(nil, nil, Errorf(CodeParse, KindParse, "the line is not JSON"))
		return
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil || object == nil {
		c.answer(nil, nil, Errorf(CodeInvalidRequest, KindRequest, "a request is an object; batches are not supported"))
		return
	}
	_, isRPC := object["jsonrpc"]
	if kind, isControl := object["type"]; isControl && !isRPC {
		c.control(kind, line)
		return
	}
	id, hasID := object["id"]
	refuse := func(format string, args ...any) {
		if !IsID(id) {
			id = nil
		}
		c.answer(id, nil, Errorf(CodeInvalidRequest, KindRequest, format, args...))
	}
	var version, method string
	if json.Unmarshal(object["jsonrpc"], &version) != nil || version != "2.0" {
		refuse(`jsonrpc must be "2.0"`)
		return
	}
	params := object["params"]
	rawMethod, hasMethod := object["method"]
	_, hasResult := object["result"]
	_, hasError := object["error"]
	switch {
	case !hasMethod && (hasResult || hasError):
		return // the answer to a question that nobody asked
	case json.Unmarshal(rawMethod, &method) != nil || method == "":
		refuse("method must be a string")
	case params != nil && params[0] != '{' && params[0] != '[':
		refuse("params must be an object or an array")
	case !hasID:
		c.notification(method, params)
	case !IsID(id):
		refuse("id must be a string or a number")
	default:
		c.request(id, method, params)
	}
}

// IsID reports whether raw, which is JSON, is a string or a number: what an id and
// a progress token may be.
func IsID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

func (c *Conn) control(rawKind json.RawMessage, line []byte) {
	var kind string
	if rawKind[0] != '"' || json.Unmarshal(rawKind, &kind) != nil {
		c.answer(nil, nil, Errorf(CodeInvalidRequest, KindRequest, "type must be a string"))
		return
	}
	reply := ControlReply{Reason: "control_plane_unwired", Error: "this server has no control plane"}
	if c.server.Control != nil {
		reply = c.server.Control(kind, line)
	}
	reply.Error = clip(reply.Error, 200)
	c.enqueue(mustMarshal(reply))
}

// notification takes in what wants no answer. Only cancels are known; others are
// ignored, as the specification has it.
func (c *Conn) notification(method string, params json.RawMessage) {
	if method != "notifications/cancelled" {
		return
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.calls[key(p.RequestID)]; r != nil && !r.settled {
		r.cancel(ErrCancelled)
	}
}

// key is what two ids share that are the same: a string however it was written, but
// no number.
func key(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return `"` + s
	}
	return string(id)
}

func (c *Conn) request(id json.RawMessage, method string, params json.RawMessage) {
	handler, quick := c.server.Quick[method]
	if !quick {
		handler = c.server.Methods[method]
	}
	if handler == nil {
		c.answer(id, nil, Errorf(CodeMethodNotFound, KindMethod, "there is no method %q", clip(method, 100)))
		return
	}
	r := &Request{Method: method, Params: params, Conn: c, id: id, token: progressToken(params)}
	r.ctx, r.cancel = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	_, taken := c.calls[key(id)]
	full := len(c.calls) >= maxCalls
	if !taken && !full {
		c.calls[key(id)] = r
	}
	c.mu.Unlock()
	switch {
	case taken:
		c.answer(id, nil, Errorf(CodeInvalidRequest, KindRequest, "a request with the id %s is under way", clip(string(id), 100)))
		return
	case full:
		c.answer(id, nil, Errorf(CodeFailed, KindOverloaded, "%d requests are under way on this connection; wait for one of them", maxCalls))
		return
	}
	c.server.calls.Add(1)
	c.server.worked()
	if quick {
		c.call(r, handler)
	} else {
		c.wg.Go(func() { c.call(r, handler) })
	}
}

// call runs one handler, unless the call was cancelled before, and answers. One
// whose client has said all that it had to say may still be reading.
func (c *Conn) call(r *Request, handler Handler) {
	var result any
	var err error
	if r.ctx.Err() == nil || errors.Is(context.Cause(r.ctx), ErrClosed) {
		result, err = c.guarded(r, handler)
	} else {
		err = Errorf(CodeFailed, KindShuttingDown, "the server shuts down")
	}
	if r.Settle() {
		err = Errorf(CodeCancelled, KindCancelled, "cancelled")
	}
	c.mu.Lock()
	delete(c.calls, key(r.id)) // before the answer: its id may be used again then
	c.mu.Unlock()
	r.finish(result, err)
	r.cancel(nil)
	c.server.calls.Add(-1)
	c.server.worked()
}

func (c *Conn) guarded(r *Request, handler Handler) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.server.logger().Error("a handler panicked", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
			err = Errorf(CodeFailed, KindInternal, "%s failed: %v", r.Method, p)
		}
	}()
	return handler(r.ctx, r)
}

// ---- writing

type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

type notification struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

var null = json.RawMessage("null")

// answer queues the answer to id; nil when there was none to be read.
func (c *Conn) answer(id json.RawMessage, result any, err error) {
	if id == nil {
		id = null
	}
	r := response{JSONRPC: "2.0", ID: id, Result: result}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = Errorf(CodeFailed, KindInternal, "%v", err)
		}
		r.Result, r.Error = nil, e
	} else if result == nil {
		r.Result = struct{}{}
	}
	line, err := json.Marshal(r)
	if err == nil && len(line) > MaxLine {
		err = fmt.Errorf("the answer of %d bytes is over the bound of %d", len(line), MaxLine)
	}
	if err != nil {
		line = mustMarshal(response{JSONRPC: "2.0", ID: id, Error: Errorf(CodeFailed, KindInternal, "%v", err)})
	}
	c.enqueue(line)
}

// Notify sends a notification, without waiting. It fails when the connection is
// closed, or was dropped because the client does not read.
func (c *Conn) Notify(method string, params any) error {
	line, err := json.Marshal(notification{"2.0", method, params})
	if err != nil {
		return err
	}
	return c.enqueue(line)
}

// NotifyWhenRoom is Notify for what may wait: it does so while more than a
// megabyte is queued for this client, until ctx ends.
func (c *Conn) NotifyWhenRoom(ctx context.Context, method string, params any) error {
	line, err := json.Marshal(notification{"2.0", method, params})
	if err != nil {
		return err
	}
	for {
		c.mu.Lock()
		if c.queued < roomQueued || c.broken != nil || c.ended {
			defer c.mu.Unlock() // those who wait at the same time are let in one by one
			return c.enqueueLocked(line)
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

func (c *Conn) enqueue(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueueLocked(line)
}

func (c *Conn) enqueueLocked(line []byte) error {
	switch {
	case c.broken != nil:
		return c.broken
	case c.ended:
		return ErrClosed
	case c.queued+len(line) > maxQueued:
		c.dropLocked(fmt.Errorf("rpc: a client that does not read was dropped: %d bytes waited for it", c.queued))
		return c.broken
	}
	c.queue = append(c.queue, append(line, '\n'))
	c.queued += len(line) + 1
	c.nudge()
	return nil
}

// dropLocked gives the client up.
func (c *Conn) dropLocked(why error) {
	if c.broken != nil {
		return
	}
	c.broken = why
	c.queue, c.queued = nil, 0
	c.roomLocked()
	c.stop(why)
	_ = c.stream.Close() // the reader and the writer fail
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

// write writes what is queued, several lines at once when they are there.
func (c *Conn) write() {
	defer close(c.written)
	limit := c.server.StallLimit
	if limit == 0 {
		limit = stallLimit
	}
	for range c.wake {
		c.mu.Lock()
		lines, over := c.queue, c.ended || c.broken != nil
		c.queue = nil
		c.mu.Unlock()
		for _, line := range lines {
			if err := c.writeLine(line, limit); err != nil {
				c.mu.Lock()
				c.dropLocked(err)
				c.mu.Unlock()
				return
			}
			c.mu.Lock()
			c.queued -= len(line)
			if c.queued < roomQueued {
				c.roomLocked()
			}
			c.mu.Unlock()
		}
		if over {
			return
		}
	}
}

// writeLine writes one line, or fails when the client has not taken it within
// the limit.
func (c *Conn) writeLine(line []byte, limit time.Duration) error {
	watchdog := time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dropLocked(fmt.Errorf("rpc: a client that does not read was dropped after %s", limit))
	})
	defer watchdog.Stop()
	_, err := c.stream.Write(line)
	return err
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types encode
	}
	return b
}
