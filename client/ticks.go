package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/jsonline"
	"github.com/turnstone-repl/turnstone/session"
)

// Ticks say whenever a session, or any session, has changed. A reader that is slow gets the
// newest tick of each session. Those of a [Link] survive the end of its connection. Next is for one
// goroutine, the rest for any.
type Ticks struct {
	link   *Link // nil without one
	params SubscribeParams
	wake   chan struct{}

	mu   sync.Mutex
	at   place          // guarded by mu
	held []session.Tick // guarded by mu; the newest of each session, by when they became new
	err  error          // guarded by mu; why no more will come

	// Of the goroutine that calls Next:
	open   map[string]bool // the sessions that it was told of, and of no end
	missed bool            // some may have been closed while the link was down
	losses losses
}

// Ticks subscribes to the ticks of a session, or of all sessions for the name "". The first says
// how each is now. Then they come when something has changed, at most ten a second for each
// session. The last tick of a session that all are watched for is Closed.
func (c *Client) Ticks(ctx context.Context, name string) (*Ticks, error) {
	t := &Ticks{link: c.link, params: SubscribeParams{Session: name, Ticks: true}, wake: make(chan struct{}, 1), open: make(map[string]bool)}
	if _, err := c.subscribe(ctx, cut{}, t.params, t, t.move); err != nil {
		return nil, err
	}
	return t, nil
}

// ID names the subscription to the daemon. It changes with the connection.
func (t *Ticks) ID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.id
}

func (t *Ticks) move(to place) (wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = to
	if isCut(t.err) { // it may be cancelled meanwhile
		t.err = nil
	}
	return t.err == nil
}

// Next returns the next tick, once there is one. The error is ctx's, session.ErrClosed, or the
// connection's.
func (t *Ticks) Next(ctx context.Context) (session.Tick, error) {
	for {
		if t.missed {
			if err := t.endMissed(ctx); err != nil {
				return session.Tick{}, err
			}
		}
		t.mu.Lock()
		if len(t.held) > 0 {
			next := t.held[0]
			t.held = t.held[1:]
			t.mu.Unlock()
			if t.open[next.Session] = true; next.Closed {
				delete(t.open, next.Session)
			}
			return next, nil
		}
		err, before := t.err, t.at
		t.mu.Unlock()
		if isCut(err) && t.link != nil {
			before.let()
			if err := t.losses.count(ctx, MethodSubscribe, err); err != nil {
				return session.Tick{}, err
			}
			if _, err := t.link.all.subscribe(ctx, cut{before.client, err}, t.params, t, t.move); err != nil {
				return session.Tick{}, err
			}
			t.missed = t.params.Session == ""
			continue
		}
		if err != nil {
			return session.Tick{}, err
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return session.Tick{}, ctx.Err()
		}
	}
}

// endMissed makes the last tick of each session that was closed while the link was down.
func (t *Ticks) endMissed(ctx context.Context) error {
	now, err := t.link.List(ctx)
	if err != nil {
		return err
	}
	t.missed = false
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.open {
		there := slices.ContainsFunc(now, func(i session.Info) bool { return i.Name == name })
		if !there && !slices.ContainsFunc(t.held, func(k session.Tick) bool { return k.Session == name }) {
			t.held = append(t.held, session.Tick{Session: name, Closed: true})
		}
	}
	return nil
}

// Cancel ends the subscription.
func (t *Ticks) Cancel(ctx context.Context) error {
	t.mu.Lock()
	at := t.at
	t.mu.Unlock()
	return at.leave(ctx, t)
}

func (t *Ticks) put(m *jsonline.Message) {
	if m.Method == MethodEnded {
		t.fail(endedBy(m))
		return
	}
	var p Tick
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.held = slices.DeleteFunc(t.held, func(old session.Tick) bool { return old.Session == p.Tick.Session })
	t.held = append(t.held, p.Tick)
	t.nudge()
}

func (t *Ticks) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || isCut(t.err) {
		t.err = err
	}
	t.nudge()
}

func (t *Ticks) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
