package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"weak"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// maxRequests bounds the answered requests of one client that are remembered. As many more may
	// be under way.
	maxRequests = 256

	// maxErrorBytes bounds the text of a remembered error, in bytes.
	maxErrorBytes = 1000
)

// A namedRequest is a request with a name, and its effect once that is known.
type namedRequest struct {
	client      *clientState
	name        string
	fingerprint [sha256.Size]byte // of the method and its params; a repetition has the same one
	calls       int               // guarded by Daemon.mu; calls without an answer yet
	absence     *absence          // guarded by Daemon.mu; set while an input waits in a queue
	cancel      context.CancelCauseFunc
	done        chan struct{} // closed when effect and err are set
	effect      any
	err         error
}

// A retryableCall is a call that must have its effect only once, even if the client repeats it.
type retryableCall struct {
	requestID string // the name of the request; "" is never remembered
	session   string
	params    []byte // distinguish it from other calls of the same method
}

// runOnce carries out a call, or returns the effect of an earlier call with the same name. It waits
// for one that is under way. A call with a name continues after its connection ends, because its
// client may repeat it. When its client cancels it, its context ends.
func runOnce[R any](ctx context.Context, d *Daemon, r *rpcserver.Request, t retryableCall, do func(context.Context) (R, error)) (R, error) {
	effect, forget, err := startOnce(ctx, d, r, t, do)
	forget()
	return effect, err
}

// startOnce is runOnce for a call that continues after its effect. The daemon remembers the effect
// until the call, at its end, calls forget, however many other requests come.
func startOnce[R any](ctx context.Context, d *Daemon, r *rpcserver.Request, t retryableCall, do func(context.Context) (R, error)) (effect R, forget func(), err error) {
	forget = func() {}
	if t.requestID == "" {
		effect, err = do(ctx)
		return effect, forget, err
	}
	q, runCtx, err := d.findRequest(r, t)
	if err != nil {
		return effect, forget, err
	}
	forget = func() { d.finishCall(q) }
	if runCtx != nil {
		d.wg.Go(func() {
			defer close(q.done)
			defer q.cancel(nil)
			q.effect, q.err = runRecovered(d, r.Method, func() (any, error) { return do(runCtx) })
		})
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), rpcserver.ErrCancelled) {
			return effect, forget, ctx.Err()
		}
		q.cancel(rpcserver.ErrCancelled)
		<-q.done // the call has ended with its context; the caller interrupts the turn that it started
	}
	if q.err != nil {
		return effect, forget, q.err
	}
	return q.effect.(R), forget, nil
}

// runRecovered calls do. A panic becomes an error, as in any other handler. The text of an error is
// cut, because a client can make it as long as a line.
func runRecovered(d *Daemon, method string, do func() (any, error)) (effect any, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
			err = rpcserver.Errorf(rpcserver.CodeFailed, rpcserver.KindInternal, "%s failed: %v", method, p)
		}
	}()
	effect, err = do()
	if e, ok := errors.AsType[*rpcserver.Error](clientError(err)); ok && len(e.Message) > maxErrorBytes {
		err = &rpcserver.Error{Code: e.Code, Kind: e.Kind, Data: e.Data, Message: text.ShortenBytes(e.Message, maxErrorBytes)}
	}
	return effect, err
}

// findRequest returns the request of a call. For a new request, runCtx is the context in which the
// caller must carry it out; otherwise it is nil.
func (d *Daemon) findRequest(r *rpcserver.Request, t retryableCall) (q *namedRequest, runCtx context.Context, err error) {
	if len(t.requestID) > protocol.MaxRequestIDBytes {
		return nil, nil, rpcserver.InvalidParams("request: use at most %d bytes", protocol.MaxRequestIDBytes)
	}
	fingerprint := sha256.Sum256(fmt.Appendf(nil, "%s %q %s", r.Method, t.session, t.params))
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[r.Conn]
	if l == nil || l.client.id == "" {
		return nil, nil, rpcserver.InvalidParams("request: call client/hello first; requests are remembered for a client, not for a connection")
	}
	if l.client.conn.Load() != r.Conn {
		return nil, nil, errReplaced // the client repeats this call on its new connection
	}
	log := &l.client.requests
	if q := log.byName[t.requestID]; q != nil {
		if q.fingerprint != fingerprint {
			return nil, nil, rpcserver.InvalidParams("request %q was another call; use a new name for each call, and an old name only to repeat its call", t.requestID)
		}
		q.calls++
		q.absence.end()
		return q, nil, nil
	}
	if !log.evictOldest() {
		return nil, nil, session.Errorf(rpcserver.KindOverloaded, "%d requests of this client are under way; wait for one of them", maxRequests)
	}
	runCtx, cancel := context.WithCancelCause(d.ctx)
	q = &namedRequest{client: l.client, name: t.requestID, fingerprint: fingerprint, calls: 1, cancel: cancel, done: make(chan struct{})}
	runCtx = context.WithValue(runCtx, requestKey{}, q)
	if log.byName == nil {
		log.byName = make(map[string]*namedRequest)
	}
	log.byName[q.name] = q
	log.order = append(log.order, q)
	return q, runCtx, nil
}

// finishCall notes that a call of a request is answered. The last one makes the request the newest
// in the log.
func (d *Daemon) finishCall(q *namedRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.calls--; q.calls > 0 {
		return
	}
	q.absence.begin()
	log := &q.client.requests
	if i := slices.Index(log.order, q); i >= 0 {
		log.order = append(slices.Delete(log.order, i, i+1), q)
	}
}

// isOver reports whether the request is carried out and all of its calls are answered.
func (r *namedRequest) isOver() bool {
	select {
	case <-r.done:
		return r.calls == 0
	default:
		return false
	}
}

// evictOldest forgets the oldest request that is over, if there are too many. It returns false if
// too many are under way.
func (r *recentRequests) evictOldest() bool {
	oldest, over := -1, 0
	for i, q := range r.order {
		if q.isOver() {
			if over++; oldest < 0 {
				oldest = i
			}
		}
	}
	if over >= maxRequests {
		delete(r.byName, r.order[oldest].name)
		r.order = slices.Delete(r.order, oldest, oldest+1)
	}
	return len(r.order) < 2*maxRequests
}

// A turnHandle is the effect of a call that creates a session, or starts or answers a turn. It does
// not keep a closed session in memory.
type turnHandle struct {
	entry weak.Pointer[openSession]
	name  string
	turn  uint64
}

func newTurnHandle(e *openSession, turn uint64) turnHandle {
	return turnHandle{weak.Make(e), e.name, turn}
}

// sessionOfTurn returns the session of a turn, or an error if it was closed.
func (d *Daemon) sessionOfTurn(h turnHandle) (*openSession, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.openSessions[h.name]; e != nil && e == h.entry.Value() {
		return e, nil
	}
	return nil, session.Errorf(session.KindClosed, "session %q has been closed", h.name)
}
