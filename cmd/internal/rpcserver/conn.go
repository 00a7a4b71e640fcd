package rpcserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	// MaxLine bounds a line of the server, in bytes. A longer answer becomes an error.
	MaxLine = 16 << 20

	// maxCalls bounds the calls that one connection may have under way.
	maxCalls = 256

	// stallTimeout is the default of [Server.StallTimeout].
	stallTimeout = 30 * time.Second
)

// ErrCancelled is the cause of a call's context when its caller has cancelled it.
var ErrCancelled = errors.New("rpc: the caller cancelled the request")

// A Conn is the connection of one client, with its calls. It is safe for concurrent use.
type Conn struct {
	*jsonrpc2.Conn

	// Logger receives the log of the connection. [Server.OnConnect] may replace it.
	Logger *slog.Logger

	server     *Server
	wg         sync.WaitGroup // counts the goroutines of calls
	hasRequest bool           // only for the reader: a request has come

	mu    sync.Mutex
	calls map[string]*Request // guarded by mu; calls under way, by jsonrpc2.IDKey
}

func newConn(s *Server, stream io.ReadWriteCloser) *Conn {
	c := &Conn{Logger: s.loggerOrDiscard(), server: s, calls: make(map[string]*Request)}
	o := &jsonrpc2.Options{MaxLine: jsonrpc2.MaxRequestBytes, MaxSend: MaxLine, StallTimeout: s.StallTimeout, OnMessage: c.handleMessage, OnMalformed: c.handleMalformed}
	if o.StallTimeout == 0 {
		o.StallTimeout = stallTimeout
	}
	c.Conn = jsonrpc2.New(stream, o)
	return c
}

// HangUp ends the connection as if its client had closed its end. Queued lines are still written.
func (c *Conn) HangUp() { c.StopReading(jsonrpc2.ErrClosed) }

func (c *Conn) serveCalls(ctx context.Context) error {
	over := func() {}
	if c.server.OnConnect != nil {
		over = c.server.OnConnect(c)
	}
	c.LogTo(c.Logger)
	defer context.AfterFunc(ctx, func() { c.StopReading(context.Cause(ctx)) })()
	err := c.Read()
	over()
	c.wg.Wait()
	if dropped := c.FinishWriting(); dropped != nil {
		err = dropped
	}
	if isClientGone(err) || ctx.Err() != nil {
		return nil
	}
	return err
}

// isClientGone reports whether err only means that the client has disconnected.
func isClientGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// handleMalformed handles a line that is not a message: a control line gets its answer, any other
// line an error.
func (c *Conn) handleMalformed(line []byte, p *jsonrpc2.Problem) {
	var control struct {
		Type json.RawMessage `json:"type"`
	}
	switch {
	case p.NotJSONRPC && json.Unmarshal(line, &control) == nil && control.Type != nil:
		c.handleControl(control.Type, line)
	case line == nil: // too long
		c.refuseMessage(p.ID, Errorf(CodeInvalidRequest, KindTooLarge, "%s", p.Text))
	case p.Code == jsonrpc2.CodeParse:
		c.refuseMessage(p.ID, Errorf(CodeParse, KindParse, "%s", p.Text))
	default:
		c.refuseMessage(p.ID, Errorf(CodeInvalidRequest, KindInvalidRequest, "%s", p.Text))
	}
}

// handleControl answers a control line, whose type is rawKind.
func (c *Conn) handleControl(rawKind json.RawMessage, line []byte) {
	var kind string
	if rawKind[0] != '"' || json.Unmarshal(rawKind, &kind) != nil {
		c.refuseMessage(nil, Errorf(CodeInvalidRequest, KindInvalidRequest, "type must be a string"))
		return
	}
	reply := ControlReply{Reason: "control_plane_unwired", Error: "this server has no control plane"}
	if c.server.Control != nil {
		reply = c.server.Control(c, kind, line)
	}
	reply.Error = text.ShortenBytes(reply.Error, 200)
	_ = c.Send(mustMarshal(reply)) // a client that is gone needs no reply
}

// handleMessage handles a request or a notification.
func (c *Conn) handleMessage(m *jsonrpc2.Message) {
	switch {
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		c.refuseMessage(m.ID, Errorf(CodeInvalidRequest, KindInvalidRequest, "params must be an object or an array"))
	case m.IsRequest():
		c.startCall(m)
	case m.Method == jsonrpc2.MethodCancelled:
		c.cancelCall(m.Params)
	}
}

// cancelCall ends the context of the request that params name.
func (c *Conn) cancelCall(params json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.calls[jsonrpc2.CancelledKey(params)]; r != nil && !r.committed {
		r.cancel(ErrCancelled)
	}
}

// startCall runs the handler of a request, or refuses the request.
func (c *Conn) startCall(m *jsonrpc2.Message) {
	handler, inline := c.server.InlineMethods[m.Method]
	if !inline {
		handler = c.server.Methods[m.Method]
	}
	if handler == nil {
		c.refuseMessage(m.ID, Errorf(CodeMethodNotFound, KindUnknownMethod, "method not found: %q", text.ShortenBytes(m.Method, 100)))
		return
	}
	if invalid := jsonrpc2.InvalidCharacter(m.Params); invalid != "" {
		c.refuseMessage(m.ID, Errorf(CodeInvalidParams, KindInvalidParams, "the params contain %s and cannot be decoded", invalid))
		return
	}
	r := &Request{Method: m.Method, Params: m.Params, Buffer: m.Buffer, Conn: c, First: !c.hasRequest, id: m.ID, token: jsonrpc2.ProgressToken(m.Params)}
	c.hasRequest = true
	r.ctx, r.cancel = context.WithCancelCause(c.Context())
	key := jsonrpc2.IDKey(m.ID)
	c.mu.Lock()
	_, taken := c.calls[key]
	full := len(c.calls) >= maxCalls
	if !taken && !full {
		c.calls[key] = r
	}
	c.mu.Unlock()
	switch {
	case taken:
		c.refuseMessage(m.ID, Errorf(CodeInvalidRequest, KindInvalidRequest, "a request with the id %s is under way", text.ShortenBytes(string(m.ID), 100)))
		return
	case full:
		c.refuseMessage(m.ID, Errorf(CodeFailed, KindOverloaded, "%d requests are under way on this connection; wait for one of them", maxCalls))
		return
	}
	c.server.calls.Add(1)
	c.server.noteWork()
	if inline {
		c.runCall(r, handler)
	} else {
		c.wg.Go(func() { c.runCall(r, handler) })
	}
}

// runCall runs one handler, unless the call was cancelled before, and sends the answer. A client
// that has closed its end may still be reading.
func (c *Conn) runCall(r *Request, handler Handler) {
	start := time.Now()
	var result any
	var err error
	if r.ctx.Err() == nil || errors.Is(context.Cause(r.ctx), jsonrpc2.ErrClosed) {
		result, err = c.callHandler(r, handler)
	} else {
		err = Errorf(CodeFailed, KindShuttingDown, "the server is shutting down")
	}
	c.Recycle(r.Buffer)
	if r.Commit() {
		err = Errorf(CodeCancelled, KindCancelled, "cancelled")
	}
	c.mu.Lock()
	delete(c.calls, jsonrpc2.IDKey(r.id)) // before the answer, after which the client may use the id again
	c.mu.Unlock()
	r.sendAnswer(result, err)
	c.logCall(r, start, err)
	r.cancel(nil)
	c.server.calls.Add(-1)
	c.server.noteWork()
}

// callHandler calls a handler. A panic becomes an error.
func (c *Conn) callHandler(r *Request, handler Handler) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.Logger.Error("handler panicked", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
			err = Errorf(CodeFailed, KindInternal, "%s failed: %v", r.Method, p)
		}
	}()
	return handler(r.ctx, r)
}

// sendResult answers a request with the result or the error of its handler.
func (c *Conn) sendResult(id json.RawMessage, result any, err error) {
	if result == nil {
		result = struct{}{}
	}
	if err == nil {
		err = c.SendResult(id, result)
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = Errorf(CodeFailed, KindInternal, "%v", err)
	}
	c.sendError(id, e)
}

// sendError answers with an error. A nil id stands for an id that could not be read.
func (c *Conn) sendError(id json.RawMessage, e *Error) {
	if err := c.SendError(id, e); err != nil { // e.Data cannot be encoded
		_ = c.SendError(id, Errorf(CodeFailed, KindInternal, "%v", err))
	}
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // types of this module always encode
	}
	return b
}

// logCall logs how a call ended, at debug.
func (c *Conn) logCall(r *Request, start time.Time, err error) {
	if !c.Logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	kind := ""
	if e, ok := errors.AsType[*Error](err); ok {
		kind = e.Kind
	}
	c.Logger.Debug("call", "method", r.Method, "ms", time.Since(start).Milliseconds(), "failed", err != nil, "kind", kind)
}

// refuseMessage answers a message that is not a valid call.
func (c *Conn) refuseMessage(id json.RawMessage, e *Error) {
	c.Logger.Info("request refused", "kind", e.Kind, "code", e.Code)
	c.sendError(id, e)
}
