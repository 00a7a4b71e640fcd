package rpcserver

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Handler carries out the calls of one method, and returns a result to encode as JSON. An *Error
// is sent unchanged; any other error gets CodeFailed and KindInternal. ctx ends when the caller
// cancels, with the cause [ErrCancelled], or the connection ends. The answer of a cancelled call is
// CodeCancelled, whatever the handler returns.
type Handler func(ctx context.Context, r *Request) (any, error)

// A Server dispatches the calls of all its connections to handlers. Its fields must not change
// after the first Serve.
type Server struct {
	// Methods are the callable methods. Each call runs in its own goroutine.
	Methods map[string]Handler

	// InlineMethods are methods that the reader itself runs, in the order of the requests. Their
	// handlers must not block.
	InlineMethods map[string]Handler

	// Control answers a control line of a connection. kind is the type of the line. It must return
	// soon, so it only queues commands. nil answers that there is no control plane.
	Control func(c *Conn, kind string, line json.RawMessage) ControlReply

	// OnConnect is called for each connection before its first line is read. The function that it
	// returns is called after the last line, possibly while calls still run. nil means no call.
	OnConnect func(c *Conn) (over func())

	// Logger receives the messages that are not sent to callers; nil logs nothing.
	Logger *slog.Logger

	// StallTimeout is how long a client may block a write before its connection is dropped; 0 means
	// 30 s.
	StallTimeout time.Duration

	connections atomic.Int64
	calls       atomic.Int64
	lastWork    atomic.Int64 // Unix nanoseconds
}

// A ControlReply is the answer to a control line, on one line of JSON.
type ControlReply struct {
	OK     bool           `json:"ok"`
	Reason string         `json:"reason,omitempty"` // machine-readable; "" if OK
	Error  string         `json:"error,omitempty"`  // human-readable; "" if OK
	Data   map[string]any `json:"data,omitempty"`
}

// Activity counts the connections and calls of a server at one moment.
type Activity struct {
	Connections int64
	Calls       int64     // under way
	LastWork    time.Time // when a call last started or ended; zero before the first
}

// Activity returns the current activity of the server.
func (s *Server) Activity() Activity {
	a := Activity{Connections: s.connections.Load(), Calls: s.calls.Load()}
	if t := s.lastWork.Load(); t != 0 {
		a.LastWork = time.Unix(0, t)
	}
	return a
}

// Serve serves one client until the stream or ctx ends, and then closes the stream. When the client
// closes its end, its calls are cancelled. When ctx ends, Serve stops reading, and still writes
// queued lines, for StallTimeout at most. A client that disconnects is not an error.
func (s *Server) Serve(ctx context.Context, stream io.ReadWriteCloser) error {
	s.connections.Add(1)
	defer s.connections.Add(-1)
	c := newConn(s, stream)
	return c.serveCalls(ctx)
}

func (s *Server) loggerOrDiscard() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

func (s *Server) noteWork() { s.lastWork.Store(time.Now().UnixNano()) }
