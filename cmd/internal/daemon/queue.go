package daemon

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// maxAbsence is how long an input keeps its place in a queue while no call waits for it, because its
// client has lost the connection. A client that gave up in the meantime could not say so.
const maxAbsence = 30 * time.Second

// errAbsent refuses an input whose client stays away.
var errAbsent = session.Errorf(session.KindCancelled, "the input was not run: the connection of its client was down for %s while it waited", maxAbsence)

// requestKey is the key of the namedRequest in the context in which it is carried out.
type requestKey struct{}

// An absence tells an input in a queue when no call waits for it. Its methods need Daemon.mu. They do
// nothing if it is nil.
type absence struct {
	giveUp   context.CancelCauseFunc
	timer    *time.Timer   // gives up; nil while a call waits
	returned chan struct{} // closed at the end of the absence; nil while a call waits
}

func (a *absence) begin() {
	if a != nil && a.timer == nil {
		a.timer = time.AfterFunc(maxAbsence, func() { a.giveUp(errAbsent) })
		a.returned = make(chan struct{})
	}
}

func (a *absence) end() {
	if a != nil && a.timer != nil {
		a.timer.Stop()
		close(a.returned)
		a.timer, a.returned = nil, nil
	}
}

// watchAbsence returns a context that ends when the client of the call stays away. present waits until
// a call waits for the input, or until that context ends. A call without a name ends with its
// connection, so it is always present.
func (d *Daemon) watchAbsence(ctx context.Context) (_ context.Context, present func() error, stop func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	q, ok := ctx.Value(requestKey{}).(*namedRequest)
	if !ok {
		return ctx, func() error { return nil }, func() { giveUp(nil) }
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &absence{giveUp: giveUp}
	if q.absence = a; q.calls == 0 {
		a.begin()
	}
	present = func() error {
		d.mu.Lock()
		returned := a.returned
		d.mu.Unlock()
		if returned == nil {
			return nil
		}
		select {
		case <-returned:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return ctx, present, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		a.end()
		q.absence = nil
		giveUp(nil)
	}
}

// startQueued submits the input of a call once the inputs before it are over. The write lock is
// checked only then, and not held while the input waits, because the turn before may need an answer.
func (d *Daemon) startQueued(ctx context.Context, e *openSession, c *clientState, p protocol.StartParams) (uint64, error) {
	waiting, present, stop := d.watchAbsence(ctx)
	defer stop()
	place, err := e.session.JoinQueue()
	if err != nil {
		return 0, err
	}
	defer place.Leave()
	for {
		err := place.Wait(waiting)
		if err == nil {
			err = present()
		}
		if context.Cause(waiting) == errAbsent {
			err = errAbsent
		}
		if err == nil {
			err = d.checkAdmission()
		}
		if err != nil {
			return 0, err
		}
		turn, err := d.startWithLock(ctx, e, c, p.WriteLock, p.Author, func() (uint64, error) {
			return place.Submit(ctx, p.Input, supervisor.QueuedInput{Author: p.Author, Silent: p.Silent, MayExit: p.MayExit, Dialect: p.Dialect})
		})
		if kind := session.KindOf(err); kind != session.KindBusy && kind != session.KindWaiting {
			return turn, err
		}
	}
}
