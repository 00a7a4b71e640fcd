package client

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A Subscription reads a session's timeline from the daemon, event by event. The daemon sends only
// a few megabytes ahead of its reader. A subscription of a [Client] survives the end of its
// connection without missing or repeated events. Next is for one goroutine, the other methods for
// any.
type Subscription struct {
	Seq timeline.Seq // the snapshot reaches up to this event

	calls     caller
	params    protocol.SubscribeParams
	wake      chan struct{}
	buffered  []timeline.Event    // of the goroutine that calls Next
	lastSeq   timeline.Seq        // of the goroutine that calls Next; everything up to it has arrived
	losses    backoff.LossCounter // of the goroutine that calls Next
	resumedAt timeline.Seq        // of the goroutine that calls Next; where it last resumed

	flowLock chan struct{} // holds one element while a pause or resume call is running, which takes mu

	mu         sync.Mutex
	position   streamPosition // guarded by mu
	backlog    conn.Backlog   // guarded by mu
	err        error          // guarded by mu; why the subscription has ended
	paused     bool           // guarded by mu; set by Pause
	isFull     bool           // guarded by mu; the backlog is above its bound
	daemonFlow flowState      // guarded by mu; the last state sent to the daemon
}

// A flowState is the state of a stream that the daemon was last asked for.
type flowState int

const (
	flowSending flowState = iota
	flowPaused
	flowUnknown // the call that changes it failed
)

func newSubscription(ctx context.Context, c caller, p protocol.SubscribeParams) (*Subscription, error) {
	w := &Subscription{calls: c, params: p, lastSeq: p.After, wake: make(chan struct{}, 1), flowLock: make(chan struct{}, 1)}
	seq, err := c.subscribeReceiver(ctx, lostStream{}, p, w)
	w.Seq = seq
	return w, err
}

// ID is the name of the subscription in the daemon. It changes with the connection.
func (sub *Subscription) ID() string {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.position.id
}

func (sub *Subscription) setPosition(to streamPosition) (wanted bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.position, sub.daemonFlow = to, flowSending
	if isDisconnect(sub.err) { // it may have been cancelled in the meantime
		sub.err = nil
	}
	return sub.err == nil
}

// resubscribe continues the subscription on another connection, if its caller can reconnect.
func (sub *Subscription) resubscribe(ctx context.Context, why error) error {
	sub.mu.Lock()
	before := sub.position
	sub.mu.Unlock()
	if sub.lastSeq > sub.resumedAt { // it makes progress
		sub.resumedAt, sub.losses = sub.lastSeq, backoff.LossCounter{}
	}
	p := sub.params
	p.After = sub.lastSeq
	if _, err := sub.calls.subscribeReceiver(ctx, lostStream{at: before, err: why, losses: &sub.losses}, p, sub); err != nil {
		return err
	}
	return sub.syncFlow(ctx)
}

// Next waits for the next event. The error is that of ctx, session.ErrClosed, or that of the
// connection.
func (sub *Subscription) Next(ctx context.Context) (timeline.Event, error) {
	if err := ctx.Err(); err != nil {
		return timeline.Event{}, err // even while there is more to read
	}
	for len(sub.buffered) == 0 {
		m, err := sub.nextMessage(ctx)
		if isDisconnect(err) {
			if err := sub.resubscribe(ctx, err); err != nil {
				return timeline.Event{}, err
			}
			continue
		}
		if err != nil {
			return timeline.Event{}, err
		}
		switch m.Method {
		case protocol.MethodSnapshot:
			var s protocol.Snapshot
			if err := json.Unmarshal(m.Params, &s); err != nil {
				return timeline.Event{}, err
			}
			sub.buffered = append(sub.buffered, s.Events...)
		case protocol.MethodEvent:
			var l protocol.LiveEvent
			if err := json.Unmarshal(m.Params, &l); err != nil {
				return timeline.Event{}, err
			}
			sub.lastSeq = l.Event.Seq
			return l.Event, nil
		case protocol.MethodEnded:
			err := endReason(m)
			sub.mu.Lock()
			sub.err = err // even if the connection has ended in the meantime
			sub.mu.Unlock()
			return timeline.Event{}, err
		}
	}
	e := sub.buffered[0]
	sub.buffered = sub.buffered[1:]
	sub.lastSeq = e.Seq
	return e, nil
}

func (sub *Subscription) nextMessage(ctx context.Context) (*jsonrpc2.Message, error) {
	for {
		sub.mu.Lock()
		if m := sub.backlog.PopOldest(); m != nil {
			if sub.isFull && sub.backlog.Size() <= conn.MaxQueuedBytes/2 {
				sub.isFull = false
				go sub.adjustFlow()
			}
			sub.mu.Unlock()
			return m, nil
		}
		err := sub.err
		sub.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-sub.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enqueue queues a notification for Next.
func (sub *Subscription) enqueue(m *jsonrpc2.Message) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.err != nil {
		return
	}
	sub.backlog.Add(m)
	if !sub.isFull && sub.backlog.Size() > conn.MaxQueuedBytes {
		sub.isFull = true
		go sub.adjustFlow()
	}
	sub.wakeReader()
}

// adjustFlow calls syncFlow for callers that must not block.
func (sub *Subscription) adjustFlow() {
	err := sub.syncFlow(context.Background())
	switch {
	case err == nil || isDisconnect(err): // the connection reports its end itself
	case session.KindOf(err) == session.KindUnknownSubscription: // the session was closed in the meantime
		sub.closeWithError(session.ErrClosed)
	default:
		sub.closeWithError(err)
	}
}

// syncFlow asks the daemon to send or to pause, until the daemon has the desired state.
func (sub *Subscription) syncFlow(ctx context.Context) error {
	select {
	case sub.flowLock <- struct{}{}:
		defer func() { <-sub.flowLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		method, wanted := protocol.MethodResume, flowSending
		sub.mu.Lock()
		if sub.paused || sub.isFull {
			method, wanted = protocol.MethodPause, flowPaused
		}
		at, reported := sub.position, sub.daemonFlow
		sub.mu.Unlock()
		if reported == wanted {
			return nil
		}
		err := at.conn.Call(ctx, method, protocol.SubscriptionParams{Subscription: at.id}, nil)
		sub.mu.Lock()
		if sub.position.id == at.id && sub.position.conn == at.conn {
			sub.daemonFlow = wanted
			if err != nil {
				sub.daemonFlow = flowUnknown
			}
		}
		sub.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (sub *Subscription) closeWithError(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.err == nil || isDisconnect(sub.err) {
		sub.err = err
	}
	sub.wakeReader()
}

func (sub *Subscription) wakeReader() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

// Pause stops the stream. Events are still recorded.
func (sub *Subscription) Pause(ctx context.Context) error { return sub.setPaused(ctx, true) }

// Resume continues where the stream was paused, once its reader has read most of the backlog.
func (sub *Subscription) Resume(ctx context.Context) error { return sub.setPaused(ctx, false) }

// setPaused pauses or resumes the stream. On a connection that has ended nothing is sent; the
// next connection uses the new state.
func (sub *Subscription) setPaused(ctx context.Context, paused bool) error {
	sub.mu.Lock()
	sub.paused = paused
	sub.mu.Unlock()
	if err := sub.syncFlow(ctx); !sub.calls.canReconnect() || !isDisconnect(err) {
		return err
	}
	return nil
}

// Cancel ends the subscription.
func (sub *Subscription) Cancel(ctx context.Context) error {
	sub.mu.Lock()
	at := sub.position
	sub.mu.Unlock()
	return at.unsubscribe(ctx, sub)
}
