package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// progressInterval is the shortest time between two progress reports to one waiter. A waiter
	// may miss reports in between, but never the newest one.
	progressInterval = 250 * time.Millisecond

	// abandonTimeout is how long the last waiter waits for abandoned work to end. The processes of
	// that work are killed at the same time.
	abandonTimeout = 5 * time.Second
)

// errNoWaiters ends a preparation when its last waiter has left.
var errNoWaiters = errors.New("no caller waits for it any more")

// A preparationGroup runs preparations, at most one at a time for each key.
//
// A preparation can take minutes, when it downloads packages or compiles R's shim. So it is a state
// of the session. Open returns at once, and a session in preparation can be watched, interrupted,
// reset and closed. Without this state, callers could not distinguish minutes of preparation from
// the milliseconds of a start.
//
// The key belongs to one preparation, not to a Spec. So two sessions with different packages
// compile the shim only once. Preparation in the three front ends was rejected: each would need its
// own kind of session that is not open yet.
type preparationGroup struct {
	mu    sync.Mutex
	byKey map[string]*preparation // guarded by mu
}

// A preparation runs once for one or more waiters. Its one goroutine ends when Preparation.Run
// returns.
type preparation struct {
	stop   context.CancelCauseFunc
	done   chan struct{} // closed once result and err are set
	result workers.PreparationResult
	err    error

	waiters  int                         // guarded by the group's mu
	progress workers.PreparationProgress // guarded by the group's mu
	changed  chan struct{}               // guarded by the group's mu; closed when progress changes
}

// awaitPreparation waits until w has run. The first waiter starts the work, and the work is stopped
// when the last waiter leaves. It calls report at once and after each progress. done is the
// progress at the end. When ctx ends, awaitPreparation returns its cause.
func (g *preparationGroup) awaitPreparation(ctx context.Context, w workers.Preparation, limit time.Duration, report func(workers.PreparationProgress)) (result workers.PreparationResult, done int64, err error) {
	p := g.joinOrBegin(w, limit)
	defer g.leavePreparation(w.Key, p)
	for {
		g.mu.Lock()
		now, changed := p.progress, p.changed
		g.mu.Unlock()
		report(now)
		for _, update := range []<-chan struct{}{nil, changed} {
			var pause <-chan time.Time
			if update == nil {
				pause = time.After(progressInterval)
			}
			select {
			case <-update:
			case <-pause:
			case <-p.done:
				g.mu.Lock()
				defer g.mu.Unlock()
				return p.result, p.progress.Done, p.err
			case <-ctx.Done():
				return workers.PreparationResult{}, 0, context.Cause(ctx)
			}
		}
	}
}

// joinOrBegin joins the running preparation with the same key, or starts one.
func (g *preparationGroup) joinOrBegin(w workers.Preparation, limit time.Duration) *preparation {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.byKey[w.Key]
	if p == nil {
		p = g.beginLocked(w, limit)
	}
	p.waiters++
	return p
}

func (g *preparationGroup) beginLocked(w workers.Preparation, limit time.Duration) *preparation {
	if w.Timeout > 0 {
		limit = w.Timeout
	}
	ctx, stop := context.WithCancelCause(context.Background())
	p := &preparation{stop: stop, done: make(chan struct{}), changed: make(chan struct{})}
	if g.byKey == nil {
		g.byKey = make(map[string]*preparation)
	}
	g.byKey[w.Key] = p
	go func() {
		defer close(p.done)
		defer stop(nil)
		late := fmt.Errorf("preparation took longer than %s", limit)
		bounded, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		p.result, p.err = w.Run(bounded, func(now workers.PreparationProgress) { g.reportProgress(p, now) })
		if p.err != nil && errors.Is(p.err, context.DeadlineExceeded) && context.Cause(bounded) == late {
			p.err = late
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forgetLocked(w.Key, p)
	}()
	return p
}

func (g *preparationGroup) reportProgress(p *preparation, now workers.PreparationProgress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now.Done = max(now.Done, p.progress.Done)
	p.progress = now
	close(p.changed)
	p.changed = make(chan struct{})
}

// leavePreparation ends one caller's wait. The last waiter to leave stops the work and waits until
// it has ended.
func (g *preparationGroup) leavePreparation(key string, p *preparation) {
	g.mu.Lock()
	p.waiters--
	last := p.waiters == 0
	if last {
		g.forgetLocked(key, p) // the next caller starts again instead of joining abandoned work
	}
	g.mu.Unlock()
	if !last {
		return
	}
	p.stop(errNoWaiters)
	select {
	case <-p.done:
	case <-time.After(abandonTimeout):
	}
}

func (g *preparationGroup) forgetLocked(key string, p *preparation) {
	if g.byKey[key] == p {
		delete(g.byKey, key)
	}
}
