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
func (w *Subscription) ID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position.id
}

func (w *Subscription) setPosition(to streamPosition) (wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position, w.daemonFlow = to, flowSending
	if isDisconnect(w.err) { // it may have been cancelled in the meantime
		w.err = nil
	}
	return w.err == nil
}

// resubscribe continues the subscription on another connection.
func (w *Subscription) resubscribe(ctx context.Context, why error) error {
	w.mu.Lock()
	before := w.position
	w.mu.Unlock()
	before.release()
	if w.lastSeq > w.resumedAt { // it makes progress
		w.resumedAt, w.losses = w.lastSeq, lossCounter{}
	}
	if err := w.losses.recordLoss(ctx, MethodSubscribe, why); err != nil {
		return err
	}
	p := w.params
	p.After = w.lastSeq
	if _, err := w.client.facade.subscribeReceiver(ctx, disconnect{before.conn, why}, p, w, w.setPosition); err != nil {
		return err
	}
	return w.syncFlow(ctx)
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
func (at streamPosition) unsubscribe(ctx context.Context, w streamReceiver) error {
	w.closeWithError(session.ErrClosed)
	err := at.conn.Call(ctx, MethodUnsubscribe, SubscriptionParams{at.id}, nil)
	at.conn.mu.Lock()
	delete(at.conn.receivers, at.id)
	at.conn.mu.Unlock()
	at.release()
	return err
}

// isDisconnect reports whether a subscription has ended because its connection has ended.
func isDisconnect(err error) bool { return session.KindOf(err) == KindUnreachable }

// Next waits for the next event. The error is that of ctx, session.ErrClosed, or that of the
// connection.
func (w *Subscription) Next(ctx context.Context) (timeline.Event, error) {
	if err := ctx.Err(); err != nil {
		return timeline.Event{}, err // even while there is more to read
	}
	for len(w.buffered) == 0 {
		m, err := w.nextMessage(ctx)
		if isDisconnect(err) && w.client != nil {
			if err := w.resubscribe(ctx, err); err != nil {
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
			w.buffered = append(w.buffered, s.Events...)
		case MethodEvent:
			var l LiveEvent
			if err := json.Unmarshal(m.Params, &l); err != nil {
				return timeline.Event{}, err
			}
			w.lastSeq = l.Event.Seq
			return l.Event, nil
		case MethodEnded:
			err := endReason(m)
			w.mu.Lock()
			w.err = err // even if the connection has ended in the meantime
			w.mu.Unlock()
			return timeline.Event{}, err
		}
	}
	e := w.buffered[0]
	w.buffered = w.buffered[1:]
	w.lastSeq = e.Seq
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

func (w *Subscription) nextMessage(ctx context.Context) (*jsonrpc2.Message, error) {
	for {
		w.mu.Lock()
		if m := w.backlog.popOldest(); m != nil {
			if w.isFull && w.backlog.bytes <= maxQueuedBytes/2 {
				w.isFull = false
				go w.adjustFlow()
			}
			w.mu.Unlock()
			return m, nil
		}
		err := w.err
		w.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enqueue queues a notification for Next.
func (w *Subscription) enqueue(m *jsonrpc2.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.backlog.add(m)
	if !w.isFull && w.backlog.bytes > maxQueuedBytes {
		w.isFull = true
		go w.adjustFlow()
	}
	w.wakeReader()
}

// adjustFlow calls syncFlow for callers that must not block.
func (w *Subscription) adjustFlow() {
	err := w.syncFlow(context.Background())
	switch {
	case err == nil || isDisconnect(err): // the connection reports its end itself
	case session.KindOf(err) == KindUnknownSubscription: // the session was closed in the meantime
		w.closeWithError(session.ErrClosed)
	default:
		w.closeWithError(err)
	}
}

// syncFlow tells the daemon whether to send, until it has the desired state.
func (w *Subscription) syncFlow(ctx context.Context) error {
	select {
	case w.flowLock <- struct{}{}:
		defer func() { <-w.flowLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		method, wanted := MethodResume, flowSending
		w.mu.Lock()
		if w.paused || w.isFull {
			method, wanted = MethodPause, flowPaused
		}
		at, reported := w.position, w.daemonFlow
		w.mu.Unlock()
		if reported == wanted {
			return nil
		}
		err := at.conn.Call(ctx, method, SubscriptionParams{at.id}, nil)
		w.mu.Lock()
		if w.position.id == at.id && w.position.conn == at.conn {
			w.daemonFlow = wanted
			if err != nil {
				w.daemonFlow = flowUnknown
			}
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (w *Subscription) closeWithError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || isDisconnect(w.err) {
		w.err = err
	}
	w.wakeReader()
}

func (w *Subscription) wakeReader() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Pause stops the stream. Events are still recorded.
func (w *Subscription) Pause(ctx context.Context) error { return w.setPaused(ctx, true) }

// Resume continues where the stream was paused, once its reader has read most of the backlog.
func (w *Subscription) Resume(ctx context.Context) error { return w.setPaused(ctx, false) }

// setPaused pauses or resumes the stream. On a connection that has ended nothing is sent; the
// next connection uses the new state.
func (w *Subscription) setPaused(ctx context.Context, paused bool) error {
	w.mu.Lock()
	w.paused = paused
	w.mu.Unlock()
	if err := w.syncFlow(ctx); w.client == nil || !isDisconnect(err) {
		return err
	}
	return nil
}

// Cancel ends the subscription.
func (w *Subscription) Cancel(ctx context.Context) error {
	w.mu.Lock()
	at := w.position
	w.mu.Unlock()
	return at.unsubscribe(ctx, w)
}
