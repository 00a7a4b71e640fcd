package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// retries are the pauses before the daemon is dialled again, after it was lost or
// is not there yet: about a second in all.
var retries = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond}

// stuckTime is after how long a daemon that does not answer counts as stuck.
const stuckTime = 4 * time.Second

// A Link connects to a daemon when a caller needs it. It connects again after the connection
// was lost. It is safe for concurrent use.
type Link struct {
	socket string
	start  func(ctx context.Context) error // starts a daemon; nil: nobody does

	dialling chan struct{} // holds one: who dials
	log      *slog.Logger  // set before use

	mu     sync.Mutex
	client *Client            // guarded by mu; nil before the first connection, and after one was lost
	closed bool               // guarded by mu
	on     func(HostProgress) // guarded by mu
}

// NewLink makes a Link for the daemon at a socket. It calls start when there is no daemon.
// Without start, that is an error.
func NewLink(socket string, start func(ctx context.Context) error) *Link {
	return &Link{socket: socket, start: start, dialling: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
}

// Close ends the connection, and no other is made. The sessions live on.
func (l *Link) Close() {
	l.mu.Lock()
	c := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// OnProgress has f called for the progress of preparations, as OnProgress.
func (l *Link) OnProgress(f func(HostProgress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = f
	if l.client != nil {
		l.client.OnProgress(f)
	}
}

// LogTo logs connections, and everything that [Client.LogTo] would log. Call it before
// anything else.
func (l *Link) LogTo(log *slog.Logger) { l.log = log }

// Client is a connection that is there, as far as one can know.
func (l *Link) Client(ctx context.Context) (*Client, error) {
	if c := l.current(); c != nil {
		return c, nil
	}
	select {
	case l.dialling <- struct{}{}:
		defer func() { <-l.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := l.current(); c != nil { // another goroutine was faster
		return c, nil
	}
	begun := time.Now()
	c, err := Dial(ctx, l.socket)
	if absent(ctx, err, begun) && l.start != nil {
		l.log.Info("no daemon answers, so one is started", "socket", l.socket)
		if err := l.start(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
	}
	for _, pause := range retries {
		if !absent(ctx, err, begun) {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			c, err = Dial(ctx, l.socket)
		case <-ctx.Done():
			timer.Stop()
		}
	}
	if err != nil {
		l.log.Warn("the daemon cannot be reached", "socket", l.socket, "error", err)
		return nil, err
	}
	l.log.Info("connected to the daemon", "socket", l.socket)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, errors.New("the connection to the daemon is closed")
	}
	l.client = c
	c.LogTo(l.log)
	c.OnProgress(l.on)
	return c, nil
}

// absent reports whether dialling failed because no daemon is there, or not yet.
// One that took long to say nothing is there, and stuck.
func absent(ctx context.Context, err error, begun time.Time) bool {
	return session.KindOf(err) == KindUnreachable && ctx.Err() == nil && time.Since(begun) < stuckTime
}

// current returns the connection, unless it is known to be lost.
func (l *Link) current() *Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		return nil
	}
	select {
	case <-l.client.Done():
		l.client = nil
	default:
	}
	return l.client
}

// List describes all sessions, by name.
func (l *Link) List(ctx context.Context) ([]session.Info, error) {
	return use(ctx, l.Session(""), func(c *Client) ([]session.Info, error) { return c.List(ctx) })
}

// Open is the session of that name. It is made with p when it is not there and p
// says in which language, and made says whether it was.
func (l *Link) Open(ctx context.Context, p CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = l.Session(p.Name)
	now, err = s.Info(ctx)
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = use(ctx, s, func(c *Client) (session.Info, error) { return c.Create(ctx, p) })
	made = err == nil
	if session.KindOf(err) == session.KindExists { // somebody was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}

// Session is the session of that name. Nothing is asked before a method of it is called.
func (l *Link) Session(name string) *Session { return &Session{reach: l.Client, name: name} }
