package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A streamReceiver receives the notifications of a subscription. It must not block.
type streamReceiver interface {
	enqueue(m *jsonrpc2.Message)
	closeWithError(err error)
}

// A backlog is a bounded queue of notifications.
type backlog struct {
	messages   []*jsonrpc2.Message
	bytes      int
	overflowed bool // later notifications were dropped
}

func (b *backlog) add(m *jsonrpc2.Message) {
	b.messages = append(b.messages, m)
	b.bytes += len(m.Params) + messageOverhead
}

// popOldest removes and returns the oldest notification; nil if there is none.
func (b *backlog) popOldest() *jsonrpc2.Message {
	if len(b.messages) == 0 {
		return nil
	}
	m := b.messages[0]
	b.messages[0] = nil
	b.messages = b.messages[1:]
	b.bytes -= len(m.Params) + messageOverhead
	return m
}

// A Subscription reads a session's timeline from the daemon, event by event. The daemon sends only
// a few megabytes ahead of its reader. A subscription of a [Client] survives the end of its connection without missing or
// repeated events. Next is for one goroutine, the other methods for any.
type Subscription struct {
	Seq timeline.Seq // the snapshot reaches up to it

	client    *Client // nil without a Client
	params    SubscribeParams
	wake      chan struct{}
	buffered  []timeline.Event // of the goroutine that calls Next
	lastSeq   timeline.Seq     // of the goroutine that calls Next; everything up to it has arrived
	losses    lossCounter      // of the goroutine that calls Next
	resumedAt timeline.Seq     // of the goroutine that calls Next; where it last resumed

	flowLock chan struct{} // holds one element while a pause or resume call is running

	mu         sync.Mutex
	position   streamPosition // guarded by mu
	backlog    backlog        // guarded by mu
	err        error          // guarded by mu; why the subscription has ended
	paused     bool           // guarded by mu; set by Pause
	isFull     bool           // guarded by mu; the backlog is above its bound
	daemonFlow flowState      // guarded by mu; the last state sent to the daemon
}

// A flowState is what the daemon was last told about a stream.
type flowState int

const (
	flowSending flowState = iota
	flowPaused
	flowUnknown // the call that changes it failed
)

// A streamPosition is the current connection of a subscription and its ID there.
type streamPosition struct {
	conn    *Conn
	id      string
	release func() // stops probing the connection
}

// A disconnect is the loss of a subscription's connection.
type disconnect struct {
	conn *Conn // the connection; nil if there was none
	err  error
}

// Subscribe watches a session from a cursor; 0 is its beginning.
func (c *Conn) Subscribe(ctx context.Context, p SubscribeParams) (*Subscription, error) {
	w := &Subscription{client: c.client, params: p, lastSeq: p.After, wake: make(chan struct{}, 1), flowLock: make(chan struct{}, 1)}
	seq, err := c.subscribeReceiver(ctx, disconnect{}, p, w, w.setPosition)
	w.Seq = seq
	return w, err
}

// subscribeReceiver subscribes for w, on the current connection or, for a Client, on a new one.
// before describes how w lost its previous connection. move receives the new position before
// any notification, and reports whether w is still open.
func (c *Conn) subscribeReceiver(ctx context.Context, before disconnect, p SubscribeParams, w streamReceiver, move func(streamPosition) bool) (timeline.Seq, error) {
	var r SubscribeReply
	do := func(c *Conn) error {
		if err := c.Call(ctx, MethodSubscribe, p, &r); err != nil {
			return err
		}
		to := streamPosition{c, r.Subscription, c.conn.AddKeepAlive()}
		wanted := move(to)
		c.addReceiver(r.Subscription, w)
		if !wanted {
			return to.unsubscribe(ctx, w)
		}
		return nil
	}
	var err error
	if c.client != nil {
		t := &retryState{client: c.client, method: MethodSubscribe, params: p, startTime: time.Now(), lastConn: before.conn, lossErr: before.err}
		err = t.runWithRetry(ctx, do)
	} else {
		err = do(c)
	}
	return r.Seq, err
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

// resubscribe continues the subscription on another connection.
func (sub *Subscription) resubscribe(ctx context.Context, why error) error {
	sub.mu.Lock()
	before := sub.position
	sub.mu.Unlock()
	before.release()
	if sub.lastSeq > sub.resumedAt { // it makes progress
		sub.resumedAt, sub.losses = sub.lastSeq, lossCounter{}
	}
	if err := sub.losses.recordLoss(ctx, MethodSubscribe, why); err != nil {
		return err
	}
	p := sub.params
	p.After = sub.lastSeq
	if _, err := sub.client.facade.subscribeReceiver(ctx, disconnect{before.conn, why}, p, sub, sub.setPosition); err != nil {
		return err
	}
	return sub.syncFlow(ctx)
}

// addReceiver delivers the notifications of a subscription to w, including those that arrived
// before its reply was read.
func (c *Conn) addReceiver(id string, w streamReceiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receivers[id] = w
	if b := c.earlyBacklogs[id]; b != nil {
		for _, m := range b.messages {
			w.enqueue(m)
		}
		if b.overflowed {
			w.closeWithError(errors.New("client: too many notifications arrived before the reply; subscribe again after the last event that you have seen"))
		}
		delete(c.earlyBacklogs, id)
	}
	if c.err != nil {
		w.closeWithError(c.err)
	}
}

// unsubscribe ends a subscription in the daemon.
func (p streamPosition) unsubscribe(ctx context.Context, w streamReceiver) error {
	w.closeWithError(session.ErrClosed)
	err := p.conn.Call(ctx, MethodUnsubscribe, SubscriptionParams{p.id}, nil)
	p.conn.mu.Lock()
	delete(p.conn.receivers, p.id)
	p.conn.mu.Unlock()
	p.release()
	return err
}

// isDisconnect reports whether a subscription has ended because its connection has ended.
func isDisconnect(err error) bool { return session.KindOf(err) == KindUnreachable }

// Next waits for the next event. The error is that of ctx, session.ErrClosed, or that of the
// connection.
func (sub *Subscription) Next(ctx context.Context) (timeline.Event, error) {
	if err := ctx.Err(); err != nil {
		return timeline.Event{}, err // even while there is more to read
	}
	for len(sub.buffered) == 0 {
		m, err := sub.nextMessage(ctx)
		if isDisconnect(err) && sub.client != nil {
			if err := sub.resubscribe(ctx, err); err != nil {
				return timeline.Event{}, err
			}
			continue
		}
		if err != nil {
			return timeline.Event{}, err
		}
		switch m.Method {
		case MethodSnapshot:
			var s Snapshot
			if err := json.Unmarshal(m.Params, &s); err != nil {
				return timeline.Event{}, err
			}
			sub.buffered = append(sub.buffered, s.Events...)
		case MethodEvent:
			var l LiveEvent
			if err := json.Unmarshal(m.Params, &l); err != nil {
				return timeline.Event{}, err
			}
			sub.lastSeq = l.Event.Seq
			return l.Event, nil
		case MethodEnded:
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

// endReason returns why a subscription has ended.
func endReason(m *jsonrpc2.Message) error {
	var e SubscriptionEnd
	if json.Unmarshal(m.Params, &e) == nil && e.Detached {
		return &session.Error{Kind: KindDetached, Message: e.Reason}
	}
	return session.ErrClosed
}

func (sub *Subscription) nextMessage(ctx context.Context) (*jsonrpc2.Message, error) {
	for {
		sub.mu.Lock()
		if m := sub.backlog.popOldest(); m != nil {
			if sub.isFull && sub.backlog.bytes <= maxQueuedBytes/2 {
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
	sub.backlog.add(m)
	if !sub.isFull && sub.backlog.bytes > maxQueuedBytes {
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
	case session.KindOf(err) == KindUnknownSubscription: // the session was closed in the meantime
		sub.closeWithError(session.ErrClosed)
	default:
		sub.closeWithError(err)
	}
}

// syncFlow tells the daemon whether to send, until it has the desired state.
func (sub *Subscription) syncFlow(ctx context.Context) error {
	select {
	case sub.flowLock <- struct{}{}:
		defer func() { <-sub.flowLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		method, wanted := MethodResume, flowSending
		sub.mu.Lock()
		if sub.paused || sub.isFull {
			method, wanted = MethodPause, flowPaused
		}
		at, reported := sub.position, sub.daemonFlow
		sub.mu.Unlock()
		if reported == wanted {
			return nil
		}
		err := at.conn.Call(ctx, method, SubscriptionParams{at.id}, nil)
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
	if err := sub.syncFlow(ctx); sub.client == nil || !isDisconnect(err) {
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
