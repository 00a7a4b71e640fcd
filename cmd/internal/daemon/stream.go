package daemon

import (
	"context"
	"fmt"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxSubscriptions bounds the subscriptions of one connection.
	maxSubscriptions = 64

	// snapshotPartBytes is the approximate encoded size of one part of a snapshot, in bytes.
	snapshotPartBytes = 2 << 20
)

func (s *subscription) sentSeq() timeline.Seq { return timeline.Seq(s.sentUpTo.Load()) }

// inlineHandlers returns the handlers of methods that run in the order of their requests.
func (d *Daemon) inlineHandlers() map[string]rpcserver.Handler {
	return map[string]rpcserver.Handler{
		protocol.MethodHello:            newHandler(d.handleHello),
		protocol.MethodSubscribe:        newHandler(d.handleSubscribe),
		protocol.MethodPause:            newHandler(d.handlePause),
		protocol.MethodResume:           newHandler(d.handleResumeSubscription),
		protocol.MethodUnsubscribe:      newHandler(d.handleUnsubscribe),
		protocol.MethodTakeWriteLock:    newHandler(d.handleTakeWriteLock),
		protocol.MethodReleaseWriteLock: newHandler(d.handleReleaseWriteLock),
		protocol.MethodSetFunctions:     newHandler(d.handleSetFunctions),
	}
}

func (d *Daemon) handleSubscribe(_ context.Context, r *rpcserver.Request, p protocol.SubscribeParams) (protocol.SubscribeReply, error) {
	if err := checkAuthor(p.Author); err != nil {
		return protocol.SubscribeReply{}, err
	}
	if p.Blobs != "" && p.Blobs != protocol.BlobsRef {
		return protocol.SubscribeReply{}, rpcserver.InvalidParams("blobs is %q: use %q or leave it out", p.Blobs, protocol.BlobsRef)
	}
	w := &subscription{changesOnly: p.ChangesOnly, blobRefs: p.Blobs != "", conn: r.Conn}
	var last timeline.Seq
	if !p.ChangesOnly || p.Session != "" {
		d.noteUse()
		e, err := d.useSession(p.Session)
		if err != nil {
			return protocol.SubscribeReply{}, err
		}
		w.entry, last = e, e.session.Log().LastSeq()
	}
	if p.ChangesOnly && p.After > 0 {
		return protocol.SubscribeReply{}, rpcserver.InvalidParams("after is %d: ticks have no cursor", p.After)
	}
	if p.After > last {
		return protocol.SubscribeReply{}, rpcserver.InvalidParams("after is %d, and the last event is %d", p.After, last)
	}
	d.setAuthor(r.Conn, p.Author)
	w.sentUpTo.Store(uint64(p.After))
	if err := d.addSubscription(w); err != nil {
		return protocol.SubscribeReply{}, err
	}
	r.AfterAnswer(func() { d.startSubscription(w, last) })
	return protocol.SubscribeReply{Subscription: w.id, Seq: last}, nil
}

// addSubscription gives a subscription its id and registers it, if its connection may have one
// more.
func (d *Daemon) addSubscription(w *subscription) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[w.conn]
	if len(l.subscriptions) >= maxSubscriptions {
		d.evictPausedLocked(l)
	}
	if len(l.subscriptions) >= maxSubscriptions {
		return session.Errorf(session.KindLimit, "a connection may have %d subscriptions", maxSubscriptions)
	}
	d.counter++
	w.id, w.order = fmt.Sprintf("watch-%d", d.counter), d.counter
	d.subscriptions[w.id], l.subscriptions[w.id] = w, w
	return nil
}

// evictPausedLocked forgets the oldest paused subscription of a connection whose session is closed,
// if any. The caller holds d.mu.
func (d *Daemon) evictPausedLocked(l *connState) {
	var oldest *subscription
	for _, w := range l.subscriptions {
		if w.stop == nil && d.isSessionClosedLocked(w) && (oldest == nil || w.order < oldest.order) {
			oldest = w
		}
	}
	if oldest != nil {
		delete(d.subscriptions, oldest.id)
		delete(l.subscriptions, oldest.id)
	}
}

// connSubscription returns a subscription of this connection.
func (d *Daemon) connSubscription(conn *rpcserver.Conn, id string) (*subscription, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil && l.subscriptions[id] != nil {
		return l.subscriptions[id], nil
	}
	return nil, session.Errorf(session.KindUnknownSubscription, "no subscription %q on this connection", id)
}

func (d *Daemon) handlePause(_ context.Context, r *rpcserver.Request, p protocol.SubscriptionParams) (protocol.SubscribeReply, error) {
	w, err := d.connSubscription(r.Conn, p.Subscription)
	if err != nil {
		return protocol.SubscribeReply{}, err
	}
	w.stopSending()
	return protocol.SubscribeReply{Subscription: w.id, Seq: w.sentSeq()}, nil
}

func (d *Daemon) handleResumeSubscription(ctx context.Context, r *rpcserver.Request, p protocol.SubscriptionParams) (protocol.SubscribeReply, error) {
	d.noteUse()
	w, err := d.connSubscription(r.Conn, p.Subscription)
	if err != nil {
		return protocol.SubscribeReply{}, err
	}
	if w.stop == nil {
		r.AfterAnswer(func() { d.startSubscription(w, 0) })
	}
	resumed := protocol.SubscribeReply{Subscription: w.id, Seq: w.sentSeq()}
	if w.entry != nil {
		now, _ := w.entry.session.Info(ctx)
		resumed.InputRequest = now.InputRequest
	}
	return resumed, nil
}

func (d *Daemon) handleUnsubscribe(_ context.Context, r *rpcserver.Request, p protocol.SubscriptionParams) (emptyResult, error) {
	w, err := d.connSubscription(r.Conn, p.Subscription)
	if err != nil {
		return emptyResult{}, err
	}
	w.stopSending()
	d.removeSubscription(w)
	return emptyResult{}, nil
}

func (d *Daemon) removeSubscription(w *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.subscriptions, w.id)
	if l := d.connections[w.conn]; l != nil { // otherwise the connection has just ended
		delete(l.subscriptions, w.id)
	}
}

// stopSending ends the goroutine, and returns after its last event. It does not block for long,
// because a send that waits for room is cancelled.
func (s *subscription) stopSending() {
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.stopped
	s.stop = nil
}

// startSubscription sends the events after the position of the subscription, or ticks. It first
// sends everything up to the event snapshot as one snapshot, unless that is 0, and then each event
// as it comes.
func (d *Daemon) startSubscription(w *subscription, snapshot timeline.Seq) {
	ctx, stop := context.WithCancel(w.conn.Context())
	stopped := make(chan struct{})
	w.stop, w.stopped = stop, stopped
	d.mu.Lock()
	d.streams[stopped] = true
	d.mu.Unlock()
	d.wg.Go(func() {
		defer func() {
			d.mu.Lock()
			delete(d.streams, stopped)
			d.mu.Unlock()
			close(stopped)
		}()
		defer stop()
		var err error
		switch {
		case !w.changesOnly:
			err = d.sendEvents(ctx, w, snapshot)
		case w.entry != nil:
			err = w.sendChanges(ctx, w.entry)
		default:
			err = d.sendAllChanges(ctx, w)
		}
		if err == nil && ctx.Err() == nil {
			d.removeSubscription(w) // before the notice, after which the client may subscribe again
			_ = w.conn.Notify(protocol.MethodEnded, protocol.SubscriptionEnd{Subscription: w.id, Session: w.sessionName(), Reason: "the session was closed"})
		}
	})
}

// sendEvents sends events until ctx ends, the session is closed, or the client is disconnected.
func (d *Daemon) sendEvents(ctx context.Context, w *subscription, snapshot timeline.Seq) error {
	part := newSnapshotPart()
	sendPart := func(more bool) error {
		err := w.conn.NotifyWhenRoom(ctx, protocol.MethodSnapshot, protocol.Snapshot{
			Subscription: w.id, Session: d.describeSession(w.entry), Events: part.events, Seq: snapshot, More: more,
		})
		if err == nil && part.last > 0 {
			w.sentUpTo.Store(uint64(part.last))
		}
		part = newSnapshotPart()
		return err
	}
	inSnapshot := snapshot > 0
	if inSnapshot && w.sentSeq() >= snapshot {
		if err := sendPart(false); err != nil {
			return err
		}
		inSnapshot = false
	}
	for e, err := range w.entry.session.Events(ctx, w.sentSeq()) {
		if err != nil {
			break // ctx has ended, or the session is closed
		}
		if !inSnapshot {
			live := protocol.LiveEvent{Subscription: w.id, Session: w.entry.name, Event: w.formatEvent(e)}
			if err := w.conn.NotifyWhenRoom(ctx, protocol.MethodEvent, live); err != nil {
				return err
			}
			w.sentUpTo.Store(uint64(e.Seq))
			continue
		}
		full := part.add(w.formatEvent(e))
		over := e.Seq >= snapshot
		if over || full {
			if err := sendPart(!over); err != nil {
				return err
			}
		}
		inSnapshot = !over
	}
	return ctx.Err()
}

// formatEvent returns an event in the form that the client asked for.
func (s *subscription) formatEvent(e timeline.Event) timeline.Event {
	if s.blobRefs {
		e = e.StripData(session.DefaultInlineBytes)
	}
	return eventToSend(e)
}

// A snapshotPart collects the events of one part of a snapshot.
type snapshotPart struct {
	events []timeline.Event
	bytes  int
	last   timeline.Seq
}

func newSnapshotPart() *snapshotPart { return &snapshotPart{events: []timeline.Event{}} }

// add adds an event, and reports whether the part is large enough to be sent.
func (p *snapshotPart) add(e timeline.Event) (full bool) {
	p.events = append(p.events, e)
	p.last = e.Seq
	p.bytes += estimateEventSize(e)
	return p.bytes >= snapshotPartBytes
}
