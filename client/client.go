package client

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/session"
)

// A Client calls the methods of one daemon. A Client of [New] connects when a caller needs it, and
// reconnects after a lost connection: then calls are resumed and take effect only once, and
// subscriptions continue where they were. A Client of [Dial] or [FromConn] has one connection, with
// which its calls and subscriptions end.
//
// It is safe for concurrent use. An error of a call is a [*session.Error] if the daemon has refused
// it, if the connection has ended or if the input is too large. If its context ends, it is usually
// the error of that context.
type Client struct {
	over         endpoint
	dialer       Dialer            // nil if unknown
	reconnecting *reconnectingConn // over; nil with one connection only
}

// New returns a Client of a daemon, which connects later; a nil d is the user's own daemon, as
// [DefaultDialer] of os.Getenv. It calls start when no daemon is running. Without start, a daemon
// that was never reached is an error at once.
func New(d Dialer, start func(ctx context.Context) error) *Client {
	if d == nil {
		d = DefaultDialer(nil)
	}
	rc := newReconnectingConn(d, start)
	return &Client{over: rc, dialer: d, reconnecting: rc}
}

// Dial returns a Client with one connection to a daemon. It checks within 5 s that the daemon speaks
// this package's [Protocol], and never starts one. A nil d is the user's own daemon, as
// [DefaultDialer] of os.Getenv. An error is of [session.KindUnreachable], or of
// [session.KindProtocol] if the daemon has a different version.
func Dial(ctx context.Context, d Dialer) (*Client, error) {
	if d == nil {
		d = DefaultDialer(nil)
	}
	stream, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, conn.DialTimeout)
	defer stop()
	c := newSingleConn(stream)
	if err := c.CheckDaemon(ctx, d); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Client{over: c, dialer: d}, nil
}

// FromConn returns a Client of the daemon at the other end of a network connection. It checks
// nothing.
func FromConn(stream net.Conn) *Client { return &Client{over: newSingleConn(stream)} }

// Connect waits until there is a connection, and makes one if needed. Its errors are those of
// [Dial]. With one connection only, it reports whether that connection has ended.
func (c *Client) Connect(ctx context.Context) error { return c.over.awaitConnection(ctx) }

// Close ends the connection permanently, and the transport command if there is one. The sessions
// stay alive. The error is always nil.
func (c *Client) Close() error { return c.over.Close() }

// Done is closed after Close. With one connection only, it is closed when that connection has
// ended, whichever side ended it.
func (c *Client) Done() <-chan struct{} { return c.over.Done() }

// LogTo logs connections and their ends, and at debug level each line in both directions: its
// method, ID and size, never its contents. nil logs nothing. Call it before any other method.
func (c *Client) LogTo(log *slog.Logger) { c.over.LogTo(log) }

// OnProgress makes the client call f for each progress notification of a preparation, one at a
// time. f runs in the goroutine that reads replies, so it must not wait for a reply. nil removes
// the callback.
func (c *Client) OnProgress(f func(protocol.PreparationProgress)) { c.over.OnProgress(f) }

// OnOutage makes the client call f when it loses the connection, and again when the connection is
// back, before calls continue. f must not block. nil removes the callback. It is never called with
// one connection only.
func (c *Client) OnOutage(f func(Outage)) {
	if c.reconnecting != nil {
		c.reconnecting.OnOutage(f)
	}
}

// SetReconnectTimeout bounds how long a call without its own timeout waits for a lost
// connection; 0 means until its context ends.
func (c *Client) SetReconnectTimeout(d time.Duration) {
	if c.reconnecting != nil {
		c.reconnecting.reconnectTimeout.Store(int64(d))
	}
}

// RemoteName names the daemon for users, as in "the connection to gpu".
func (c *Client) RemoteName() string { return displayName(c.dialer) }

// IsRemote reports whether the daemon is remote, so that each round trip takes time.
func (c *Client) IsRemote() bool { return c.dialer != nil && !isLocal(c.dialer) }

// DownSince returns the start time of the current outage, if there is one.
func (c *Client) DownSince() (since time.Time, down bool) {
	if c.reconnecting == nil {
		return since, false
	}
	return c.reconnecting.DownSince()
}

// Downtime returns how long the connection was down since a time. An outage that had started before
// that time counts only if it lasted for at least another second.
func (c *Client) Downtime(since time.Time) time.Duration {
	if c.reconnecting == nil {
		return 0
	}
	return c.reconnecting.Downtime(since)
}

// Call calls a method. When ctx ends, the daemon cancels the call, and interrupts or abandons
// its work as the method defines. If a stuck daemon does not confirm that, Call returns 3 s
// after ctx ended. If a daemon is stuck and ctx does not end, Call drops the connection within
// 30 s.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.over.callMethod(ctx, method, params, result)
}

// Session returns the session with this name. The daemon is not contacted before a method of it
// is called.
func (c *Client) Session(name string) *Session {
	return &Session{calls: c.over, name: name, pendingCursor: &pendingReadCursor{}}
}

// OpenSession returns the session with the name in p. If it does not exist and p names a
// language, it is created, and made is true.
func (c *Client) OpenSession(ctx context.Context, p protocol.CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = c.Session(p.Name)
	before := c.reconnecting != nil && c.reconnecting.isConnected()
	now, err = s.Info(ctx)
	if before && hasEnded(err) { // the daemon ended before this call, unnoticed: another one may be running
		now, err = s.Info(ctx)
	}
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = c.CreateSession(ctx, p)
	made = err == nil
	if session.KindOf(err) == session.KindExists { // another client was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}
