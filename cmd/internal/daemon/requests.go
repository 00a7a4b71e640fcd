package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"weak"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// maxRequests bounds the requests of one client that are remembered, besides as many that
	// are under way.
	maxRequests = 256

	// maxErrorBytes bounds the text of an error that is remembered, in bytes.
	maxErrorBytes = 1000
)

// requestLog are the last calls of one client that it has given a name, so that it can make them
// again when it did not get the answer. They hold effects, such as a number of a turn, and no
// replies.
type requestLog struct {
	byName map[string]*namedRequest
	order  []*namedRequest // those that ended last are at the end
}

// A namedRequest is one such call.
type namedRequest struct {
	client      *clientState
	name        string
	fingerprint [sha256.Size]byte // the method and its params, to tell a repetition from another call
	calls       int               // guarded by Daemon.mu; those that are not answered
	cancel      context.CancelCauseFunc
	done        chan struct{} // closed when effect and err are set
	effect      any
	err         error
}

// A retryableCall is a call whose effect must come once.
type retryableCall struct {
	requestID string // its name; "" is never repeated
	session   string
	params    []byte // the params that tell it from another call of the same method
}

// runOnce carries out a call, or returns the effect of the same call that was made before; it waits
// for one that is under way. A call with a name goes on when its connection ends, because its
// client may make it again; when its client cancels it, its context ends.
func runOnce[R any](ctx context.Context, d *Daemon, r *rpcserver.Request, t retryableCall, do func(context.Context) (R, error)) (R, error) {
	effect, forget, err := startOnce(ctx, d, r, t, do)
	forget()
	return effect, err
}

// startOnce is once for a call that goes on behind its effect. Before forget, which the call
// makes at its end, the daemon remembers it however many others come.
func startOnce[R any](ctx context.Context, d *Daemon, r *rpcserver.Request, t retryableCall, do func(context.Context) (R, error)) (effect R, forget func(), err error) {
	forget = func() {}
	if t.requestID == "" {
		effect, err = do(ctx)
		return effect, forget, err
	}
	q, begin, err := d.findRequest(r, t)
	if err != nil {
		return effect, forget, err
	}
	forget = func() { d.finishCall(q) }
	if begin != nil {
		d.wg.Go(func() {
			defer close(q.done)
			defer q.cancel(nil)
			q.effect, q.err = runRecovered(d, r.Method, func() (any, error) { return do(begin) })
		})
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), rpcserver.ErrCancelled) {
			return effect, forget, ctx.Err()
		}
		q.cancel(rpcserver.ErrCancelled)
		<-q.done // which its context ends, and what it began is the caller's to interrupt
	}
	if q.err != nil {
		return effect, forget, q.err
	}
	return q.effect.(R), forget, nil
}

// runRecovered does what is remembered. A panic is an error, as that of any other handler. The text
// of an error is cut, because a client can make it as long as a line.
func runRecovered(d *Daemon, method string, do func() (any, error)) (effect any, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
			err = rpcserver.Errorf(rpcserver.CodeFailed, rpcserver.KindInternal, "%s failed: %v", method, p)
		}
	}()
	effect, err = do()
	if e, ok := errors.AsType[*rpcserver.Error](clientError(err)); ok && len(e.Message) > maxErrorBytes {
		err = &rpcserver.Error{Code: e.Code, Kind: e.Kind, Data: e.Data, Message: strings.ToValidUTF8(e.Message[:maxErrorBytes], "") + "…"}
	}
	return effect, err
}

// findRequest finds the request of a call. If there is none, it makes one and returns the context
// with which it begins.
func (d *Daemon) findRequest(r *rpcserver.Request, t retryableCall) (q *namedRequest, begin context.Context, err error) {
	if len(t.requestID) > client.MaxRequestIDBytes {
		return nil, nil, rpcserver.InvalidParams("request: use at most %d bytes", client.MaxRequestIDBytes)
	}
	what := sha256.Sum256(fmt.Appendf(nil, "%s %q %s", r.Method, t.session, t.params))
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[r.Conn]
	if l == nil || l.client.id == "" {
		return nil, nil, rpcserver.InvalidParams("request: say client/hello before; requests are remembered for a client, not for a connection")
	}
	if l.client.conn.Load() != r.Conn {
		return nil, nil, errReplaced // its client makes this call again
	}
	all := &l.client.requests
	if q := all.byName[t.requestID]; q != nil {
		if q.fingerprint != what {
			return nil, nil, rpcserver.InvalidParams("request %q was another call: give each call a name of its own, and only its repetitions the same", t.requestID)
		}
		q.calls++
		return q, nil, nil
	}
	if !all.evictOldest() {
		return nil, nil, session.Errorf(rpcserver.KindOverloaded, "%d requests of this client are under way", maxRequests)
	}
	begin, cancel := context.WithCancelCause(d.ctx)
	q = &namedRequest{client: l.client, name: t.requestID, fingerprint: what, calls: 1, cancel: cancel, done: make(chan struct{})}
	if all.byName == nil {
		all.byName = make(map[string]*namedRequest)
	}
	all.byName[q.name] = q
	all.order = append(all.order, q)
	return q, begin, nil
}

// finishCall notes that a call which a client has made, or repeated, is over. From now on it counts
// among the last ones.
func (d *Daemon) finishCall(q *namedRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.calls--; q.calls > 0 {
		return
	}
	all := &q.client.requests
	if i := slices.Index(all.order, q); i >= 0 {
		all.order = append(slices.Delete(all.order, i, i+1), q)
	}
}

// isOver reports whether nobody waits for it.
func (q *namedRequest) isOver() bool {
	select {
	case <-q.done:
		return q.calls == 0
	default:
		return false
	}
}

// evictOldest forgets the oldest request that is over, if there are too many. It returns false if
// too many are under way.
func (all *requestLog) evictOldest() bool {
	oldest, over := -1, 0
	for i, q := range all.order {
		if q.isOver() {
			if over++; oldest < 0 {
				oldest = i
			}
		}
	}
	if over >= maxRequests {
		delete(all.byName, all.order[oldest].name)
		all.order = slices.Delete(all.order, oldest, oldest+1)
	}
	return len(all.order) < 2*maxRequests
}

// A turnHandle is the effect of a call that starts or answers a turn. It does not keep a closed
// session in memory.
type turnHandle struct {
	entry weak.Pointer[openSession]
	name  string
	turn  uint64
}

func newTurnHandle(e *openSession, turn uint64) turnHandle {
	return turnHandle{weak.Make(e), e.name, turn}
}

// sessionOfTurn returns the session of a turn.
func (d *Daemon) sessionOfTurn(b turnHandle) (*openSession, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.openSessions[b.name]; e != nil && e == b.entry.Value() {
		return e, nil
	}
	return nil, session.Errorf(session.KindClosed, "the session %q was closed since", b.name)
}
