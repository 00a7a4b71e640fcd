package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxWatches bounds the subscriptions of one connection.
	maxWatches = 64

	// snapshotBytes is the approximate size of one part of a snapshot, encoded.
	snapshotBytes = 2 << 20
)

// A watch is a subscription to a session's timeline, with the place up to which the client has
// the events. Unless paused, it has a goroutine that sends each later event once and moves the
// place. One for ticks has no place, and may be for all sessions.
type watch struct {
	id    string
	made  uint64 // the oldest watch has the lowest number
	entry *entry // nil: all sessions
	ticks bool
	refs  bool // large data is named only
	conn  *rpc.Conn

	place atomic.Uint64 // a timeline.Seq: everything up to it was sent

	// Only the goroutine of the connection's stream methods uses these fields.
	stop    context.CancelFunc // nil while paused
	stopped chan struct{}      // closed when the goroutine has ended
}

// name is the name of its session; "" for all.
func (w *watch) name() string {
	if w.entry == nil {
		return ""
	}
	return w.entry.name
}

func (w *watch) seq() timeline.Seq { return timeline.Seq(w.place.Load()) }

// quickMethods returns the methods that run in the order of their requests.
func (d *Daemon) quickMethods() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		client.MethodHello:       method(d.handleHello),
		client.MethodSubscribe:   method(d.handleSubscribe),
		client.MethodPause:       method(d.handlePause),
		client.MethodResume:      method(d.handleResume),
		client.MethodUnsubscribe: method(d.handleUnsubscribe),
		client.MethodTake:        method(d.handleTake),
		client.MethodRelease:     method(d.handleRelease),
	}
}

func (d *Daemon) handleSubscribe(_ context.Context, r *rpc.Request, p client.SubscribeParams) (client.Subscribed, error) {
	if err := checkAuthor(p.Author); err != nil {
		return client.Subscribed{}, err
	}
	if p.Blobs != "" && p.Blobs != client.BlobsRef {
		return client.Subscribed{}, rpc.InvalidParams("blobs is %q: use %q or leave it out", p.Blobs, client.BlobsRef)
	}
	w := &watch{ticks: p.Ticks, refs: p.Blobs != "", conn: r.Conn}
	var last timeline.Seq
	if !p.Ticks || p.Session != "" {
		d.used()
		e, err := d.inUse(p.Session)
		if err != nil {
			return client.Subscribed{}, err
		}
		w.entry, last = e, e.session.Log().LastSeq()
	}
	if p.Ticks && p.After > 0 {
		return client.Subscribed{}, rpc.InvalidParams("after is %d: ticks have no cursor", p.After)
	}
	if p.After > last {
		return client.Subscribed{}, rpc.InvalidParams("after is %d, and the last event is %d", p.After, last)
	}
	d.named(r.Conn, p.Author)
	w.place.Store(uint64(p.After))
	if err := d.addWatch(w); err != nil {
		return client.Subscribed{}, err
	}
	r.AfterAnswer(func() { d.start(w, last) })
	return client.Subscribed{Subscription: w.id, Seq: last}, nil
}

// addWatch gives a watch its name, if its connection may have one more.
func (d *Daemon) addWatch(w *watch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[w.conn]
	if len(l.watches) >= maxWatches {
		d.makeRoomLocked(l)
	}
	if len(l.watches) >= maxWatches {
		return session.Errorf(session.KindLimit, "%d subscriptions are the most on one connection", maxWatches)
	}
	d.counter++
	w.id, w.made = fmt.Sprintf("watch-%d", d.counter), d.counter
	d.watches[w.id], l.watches[w.id] = w, w
	return nil
}

// makeRoomLocked forgets the oldest paused subscription of a connection whose session was
// closed, if there is one. The caller holds d.mu.
func (d *Daemon) makeRoomLocked(l *connState) {
	var oldest *watch
	for _, w := range l.watches {
		if w.stop == nil && d.isOverLocked(w) && (oldest == nil || w.made < oldest.made) {
			oldest = w
		}
	}
	if oldest != nil {
		delete(d.watches, oldest.id)
		delete(l.watches, oldest.id)
	}
}

// isOverLocked reports whether a watch is for a session that was closed.
func (d *Daemon) isOverLocked(w *watch) bool {
	return w.entry != nil && d.entries[w.entry.name] != w.entry
}

// ownWatch returns a watch of this connection.
func (d *Daemon) ownWatch(conn *rpc.Conn, id string) (*watch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil && l.watches[id] != nil {
		return l.watches[id], nil
	}
	return nil, session.Errorf(client.KindSubscribed, "this connection has no subscription %q", id)
}

func (d *Daemon) handlePause(_ context.Context, r *rpc.Request, p client.SubscriptionParams) (client.Subscribed, error) {
	w, err := d.ownWatch(r.Conn, p.Subscription)
	if err != nil {
		return client.Subscribed{}, err
	}
	w.pause()
	return client.Subscribed{Subscription: w.id, Seq: w.seq()}, nil
}

func (d *Daemon) handleResume(ctx context.Context, r *rpc.Request, p client.SubscriptionParams) (client.Subscribed, error) {
	d.used()
	w, err := d.ownWatch(r.Conn, p.Subscription)
	if err != nil {
		return client.Subscribed{}, err
	}
	if w.stop == nil {
		r.AfterAnswer(func() { d.start(w, 0) })
	}
	resumed := client.Subscribed{Subscription: w.id, Seq: w.seq()}
	if w.entry != nil {
		now, _ := w.entry.session.Info(ctx)
		resumed.Wait = now.InputRequest
	}
	return resumed, nil
}

func (d *Daemon) handleUnsubscribe(_ context.Context, r *rpc.Request, p client.SubscriptionParams) (nothing, error) {
	w, err := d.ownWatch(r.Conn, p.Subscription)
	if err != nil {
		return nothing{}, err
	}
	w.pause()
	d.forgetWatch(w)
	return nothing{}, nil
}

func (d *Daemon) forgetWatch(w *watch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches, w.id)
	if l := d.connections[w.conn]; l != nil { // otherwise the connection has just ended
		delete(l.watches, w.id)
	}
}

// pause ends the goroutine, and returns when that has sent its last event. It returns at once,
// because a send that waits for room gives up.
func (w *watch) pause() {
	if w.stop == nil {
		return
	}
	w.stop()
	<-w.stopped
	w.stop = nil
}

// start sends the events after the watch's place, or ticks. It first sends everything up to
// snapshot as one, unless snapshot is 0, and then each event as it comes.
func (d *Daemon) start(w *watch, snapshot timeline.Seq) {
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
		case !w.ticks:
			err = d.send(ctx, w, snapshot)
		case w.entry != nil:
			err = w.tick(ctx, w.entry)
		default:
			err = d.tickAll(ctx, w)
		}
		if err == nil && ctx.Err() == nil {
			d.forgetWatch(w) // before the client learns it, since it may subscribe again then
			_ = w.conn.Notify(client.MethodEnded, client.Ended{Subscription: w.id, Session: w.name(), Reason: "the session was closed"})
		}
	})
}

// send runs until ctx ends, the session is closed, or the client is gone.
func (d *Daemon) send(ctx context.Context, w *watch, snapshot timeline.Seq) error {
	part := newPart()
	sendPart := func(more bool) error {
		err := w.conn.NotifyWhenRoom(ctx, client.MethodSnapshot, client.Snapshot{
			Subscription: w.id, Session: d.describe(w.entry), Events: part.events, Seq: snapshot, More: more,
		})
		if err == nil && part.last > 0 {
			w.place.Store(uint64(part.last))
		}
		part = newPart()
		return err
	}
	inSnapshot := snapshot > 0
	if inSnapshot && w.seq() >= snapshot {
		if err := sendPart(false); err != nil {
			return err
		}
		inSnapshot = false
	}
	for e, err := range w.entry.session.Events(ctx, w.seq()) {
		if err != nil {
			break // ctx has ended, or the session is closed
		}
		if !inSnapshot {
			live := client.Live{Subscription: w.id, Session: w.entry.name, Event: w.event(e)}
			if err := w.conn.NotifyWhenRoom(ctx, client.MethodEvent, live); err != nil {
				return err
			}
			w.place.Store(uint64(e.Seq))
			continue
		}
		full := part.add(w.event(e))
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

// event returns an event as the client wants it.
func (w *watch) event(e timeline.Event) timeline.Event {
	if w.refs {
		e = e.StripData(session.DefaultInlineBytes)
	}
	return wireEvent(e)
}

// A part collects events of a snapshot.
type part struct {
	events []timeline.Event
	bytes  int
	last   timeline.Seq
}

func newPart() *part { return &part{events: []timeline.Event{}} }

// add reports whether the part is large enough to be sent.
func (p *part) add(e timeline.Event) (full bool) {
	p.events = append(p.events, e)
	p.last = e.Seq
	p.bytes += rawSize(e)
	return p.bytes >= snapshotBytes
}
