package rpcserver

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Handler carries out one method. Its result is encoded as JSON. An error that
// is an *Error is answered as it is; any other is CodeFailed and KindInternal. ctx
// ends when the caller cancels (its cause is then [ErrCancelled]), or the
// connection does; the answer of a cancelled call is CodeCancelled, whatever is
// returned.
type Handler func(ctx context.Context, r *Request) (any, error)

// A Server dispatches. Its fields are set before the first Serve, and not after.
type Server struct {
	// Methods are what can be called, each call in a goroutine of its own.
	Methods map[string]Handler

	// InlineMethods are methods that the reader itself runs, in the order of the requests:
	// they must not wait for anything.
	InlineMethods map[string]Handler

	// Control answers a control line of a connection. kind is the line's type. It must not take long,
	// so it only queues commands. nil answers that there is no control plane.
	Control func(c *Conn, kind string, line json.RawMessage) ControlReply

	// OnConnect is called for each connection before its first line is read. The function that it
	// returns is called after the last line, perhaps while calls still run. nil calls nothing.
	OnConnect func(c *Conn) (over func())

	// Logger gets facts that no caller learns; nil logs nothing.
	Logger *slog.Logger

	// StallTimeout is how long a client may leave a write waiting before its
	// connection is dropped; 0 means 30 s.
	StallTimeout time.Duration

	connections atomic.Int64
	calls       atomic.Int64
	lastWork    atomic.Int64 // Unix nanoseconds
}

// A ControlReply answers a control line.
type ControlReply struct {
	OK     bool           `json:"ok"`
	Reason string         `json:"reason,omitempty"` // machine-readable, when not OK
	Error  string         `json:"error,omitempty"`  // for a person, likewise
	Data   map[string]any `json:"data,omitempty"`
}

// Activity is what a server does.
type Activity struct {
	Connections int64
	Calls       int64     // under way
	LastWork    time.Time // when a call began or ended last; zero before the first
}

// Activity reports what the server does now.
func (s *Server) Activity() Activity {
	a := Activity{Connections: s.connections.Load(), Calls: s.calls.Load()}
	if t := s.lastWork.Load(); t != 0 {
		a.LastWork = time.Unix(0, t)
	}
	return a
}

// Serve serves one client until the stream or ctx ends, and then closes the stream. When the
// client ends its side, calls under way are cancelled. When ctx ends, Serve stops reading, and
// still writes queued lines, for StallTimeout at most. A client that vanishes is no error.
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
