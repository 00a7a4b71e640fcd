package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

// ChangeStream reports whenever a session, or any session, has changed. A slow reader gets only
// the newest tick of each session. A stream of a [Client] survives the end of its connection.
// Next is for one goroutine, the other methods for any.
type ChangeStream struct {
	client *Client // nil without a Client
	params SubscribeParams
	wake   chan struct{}

	mu       sync.Mutex
	position streamPosition // guarded by mu
	pending  []session.Tick // guarded by mu; the newest of each session, in order of change
	err      error          // guarded by mu; why no more will come

	// The following fields belong to the goroutine that calls Next.
	openSessions  map[string]bool // the reported sessions whose end was not reported
	mayHaveMissed bool            // some may have been closed while the connection was down
	losses        lossCounter
}

// SubscribeChanges subscribes to the ticks of a session, or of all sessions if name is "". The
// first ticks report the current state of each. Further ticks arrive when something has
// changed, at most ten a second for each session. If all sessions are watched, the last tick of
// a session is Closed.
func (c *Conn) SubscribeChanges(ctx context.Context, name string) (*ChangeStream, error) {
	t := &ChangeStream{client: c.client, params: SubscribeParams{Session: name, ChangesOnly: true}, wake: make(chan struct{}, 1), openSessions: make(map[string]bool)}
	if _, err := c.subscribeReceiver(ctx, disconnect{}, t.params, t, t.setPosition); err != nil {
		return nil, err
	}
	return t, nil
}

// ID is the name of the subscription in the daemon. It changes with the connection.
func (t *ChangeStream) ID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.position.id
}

func (t *ChangeStream) setPosition(to streamPosition) (wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.position = to
	if isDisconnect(t.err) { // it may have been cancelled in the meantime
		t.err = nil
	}
	return t.err == nil
}

// Next waits for the next tick. The error is that of ctx, session.ErrClosed, or that of the
// connection.
func (t *ChangeStream) Next(ctx context.Context) (session.Tick, error) {
	for {
		if t.mayHaveMissed {
			if err := t.reportMissedCloses(ctx); err != nil {
				return session.Tick{}, err
			}
		}
		t.mu.Lock()
		if len(t.pending) > 0 {
			next := t.pending[0]
			t.pending = t.pending[1:]
			t.mu.Unlock()
			if t.openSessions[next.Session] = true; next.Closed {
				delete(t.openSessions, next.Session)
			}
			return next, nil
		}
		err, before := t.err, t.position
		t.mu.Unlock()
		if isDisconnect(err) && t.client != nil {
			before.release()
			if err := t.losses.recordLoss(ctx, MethodSubscribe, err); err != nil {
				return session.Tick{}, err
			}
			if _, err := t.client.facade.subscribeReceiver(ctx, disconnect{before.conn, err}, t.params, t, t.setPosition); err != nil {
				return session.Tick{}, err
			}
			t.mayHaveMissed = t.params.Session == ""
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

// reportMissedCloses generates the last tick of each session that was closed while the
// connection was down.
func (t *ChangeStream) reportMissedCloses(ctx context.Context) error {
	now, err := t.client.ListSessions(ctx)
	if err != nil {
		return err
	}
	t.mayHaveMissed = false
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.openSessions {
		there := slices.ContainsFunc(now, func(i session.Info) bool { return i.Name == name })
		if !there && !slices.ContainsFunc(t.pending, func(k session.Tick) bool { return k.Session == name }) {
			t.pending = append(t.pending, session.Tick{Session: name, Closed: true})
		}
	}
	return nil
}

// Cancel ends the subscription.
func (t *ChangeStream) Cancel(ctx context.Context) error {
	t.mu.Lock()
	at := t.position
	t.mu.Unlock()
	return at.unsubscribe(ctx, t)
}

func (t *ChangeStream) enqueue(m *jsonrpc2.Message) {
	if m.Method == MethodEnded {
		t.closeWithError(endReason(m))
		return
	}
	var p ChangeNotice
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.pending = slices.DeleteFunc(t.pending, func(old session.Tick) bool { return old.Session == p.Change.Session })
	t.pending = append(t.pending, p.Change)
	t.wakeReader()
}

func (t *ChangeStream) closeWithError(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || isDisconnect(t.err) {
		t.err = err
	}
	t.wakeReader()
}

func (t *ChangeStream) wakeReader() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
