package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// retries are the pauses before the daemon is dialled again, after it was lost or
// is not there yet: about a second in all.
var retries = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond}

// stuckTime is after how long a daemon that does not answer counts as stuck.
const stuckTime = 4 * time.Second

// A Hub is the way to a daemon. It connects when it is needed, and again when the
// connection was lost. It is safe for concurrent use.
type Hub struct {
	socket string
	start  func(ctx context.Context) error // starts a daemon; nil: nobody does

	dialling chan struct{} // holds one: who dials

	mu     sync.Mutex
	client *client.Client            // guarded by mu; nil before the first, and when it was lost
	closed bool                      // guarded by mu
	on     func(client.HostProgress) // guarded by mu
}

// NewHub makes a Hub for the daemon at a socket. start is called when none is
// there; nil means that this is an error.
func NewHub(socket string, start func(ctx context.Context) error) *Hub {
	return &Hub{socket: socket, start: start, dialling: make(chan struct{}, 1)}
}

// Close ends the connection, and no other is made. The sessions live on.
func (h *Hub) Close() {
	h.mu.Lock()
	c := h.client
	h.client, h.closed = nil, true
	h.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// OnProgress has f called for the progress of preparations, as client.OnProgress.
func (h *Hub) OnProgress(f func(client.HostProgress)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = f
	if h.client != nil {
		h.client.OnProgress(f)
	}
}

// Client is a connection that is there, as far as one can know.
func (h *Hub) Client(ctx context.Context) (*client.Client, error) {
	if c := h.current(); c != nil {
		return c, nil
	}
	select {
	case h.dialling <- struct{}{}:
		defer func() { <-h.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := h.current(); c != nil { // somebody was faster
		return c, nil
	}
	begun := time.Now()
	c, err := client.Dial(ctx, h.socket)
	if absent(ctx, err, begun) && h.start != nil {
		if err := h.start(ctx); err != nil {
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
			c, err = client.Dial(ctx, h.socket)
		case <-ctx.Done():
			timer.Stop()
		}
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = c.Close()
		return nil, errors.New("the connection to the daemon is closed")
	}
	h.client = c
	c.OnProgress(h.on)
	return c, nil
}

// absent reports whether dialling failed because no daemon is there, or not yet.
// One that took long to say nothing is there, and stuck.
func absent(ctx context.Context, err error, begun time.Time) bool {
	return client.IsKind(err, client.KindUnreachable) && ctx.Err() == nil && time.Since(begun) < stuckTime
}

// current is the connection, unless it is known to be lost.
func (h *Hub) current() *client.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client == nil {
		return nil
	}
	select {
	case <-h.client.Done():
		h.client = nil
	default:
	}
	return h.client
}

// use calls do with a connection. What could not be sent because that was lost
// meanwhile is not tried again: it may have been carried out.
func use[R any](ctx context.Context, h *Hub, do func(*client.Client) (R, error)) (R, error) {
	c, err := h.Client(ctx)
	if err != nil {
		var none R
		return none, err
	}
	r, err := do(c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the daemon does not answer: %w", err)
	}
	return r, err
}

// List describes all sessions, by name.
func (h *Hub) List(ctx context.Context) ([]supervisor.Info, error) {
	all, err := use(ctx, h, func(c *client.Client) ([]client.Session, error) { return c.List(ctx) })
	infos := make([]supervisor.Info, 0, len(all))
	for _, w := range all {
		infos = append(infos, infoOf(w))
	}
	return infos, err
}

// Open is the session of that name. It is made with p when it is not there and p
// says in which language, and made says whether it was. author is who writes. with is
// what was prepared for it, or is being.
func (h *Hub) Open(ctx context.Context, p client.CreateParams, author string) (s *Session, with []string, made bool, err error) {
	s = &Session{hub: h, name: p.Name, author: author}
	get := func(c *client.Client) (client.Session, error) { return c.Get(ctx, p.Name) }
	there, err := use(ctx, h, get)
	if !client.IsKind(err, client.KindNoSession) || p.Language == "" {
		return s, there.With, false, local(err)
	}
	there, err = use(ctx, h, func(c *client.Client) (client.Session, error) { return c.Create(ctx, p) })
	made = err == nil
	if client.IsKind(err, client.KindExists) { // somebody was faster
		there, err = use(ctx, h, get)
	}
	return s, there.With, made, local(err)
}

// Session is the session of that name, which is there.
func (h *Hub) Session(name, author string) *Session {
	return &Session{hub: h, name: name, author: author}
}
