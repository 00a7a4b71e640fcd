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
	// progressInterval is the shortest time between two reports to one waiter. A waiter may miss
	// reports in between, but never the newest.
	progressInterval = 250 * time.Millisecond

	// abandonTimeout is how long the last waiter waits until work that it gave up has ended. Its
	// processes are killed meanwhile.
	abandonTimeout = 5 * time.Second
)

// errNoWaiters ends a preparation that nobody waits for any more.
var errNoWaiters = errors.New("nobody waits for it any more")

// preparationGroup are those that run now, at most one for each key.
type preparationGroup struct {
	mu    sync.Mutex
	byKey map[string]*preparation // guarded by mu
}

// A preparation runs for one or more waiters. Its one goroutine ends when Make returns.
type preparation struct {
	stop context.CancelCauseFunc
	done chan struct{} // closed once the next two are set
	made workers.PreparationResult
	err  error

	waiters  int              // guarded by preparations.mu; the number of waiters
	progress workers.Progress // guarded by preparations.mu
	changed  chan struct{}    // guarded by preparations.mu; closed when now changes
}

// awaitPreparation waits until w is made. The first waiter begins the work, and the work ends early when
// the last one gives up. join calls tell at once, and again at all progress. done is the
// progress at the end. When ctx ends, join returns its cause.
func (a *preparationGroup) awaitPreparation(ctx context.Context, w workers.Preparation, limit time.Duration, tell func(workers.Progress)) (made workers.PreparationResult, done int64, err error) {
	p := a.joinOrBegin(w, limit)
	defer a.leavePreparation(w.Key, p)
	for {
		a.mu.Lock()
		now, changed := p.progress, p.changed
		a.mu.Unlock()
		tell(now)
		for _, news := range []<-chan struct{}{nil, changed} {
			var pause <-chan time.Time
			if news == nil {
				pause = time.After(progressInterval)
			}
			select {
			case <-news:
			case <-pause:
			case <-p.done:
				a.mu.Lock()
				defer a.mu.Unlock()
				return p.made, p.progress.Done, p.err
			case <-ctx.Done():
				return workers.PreparationResult{}, 0, context.Cause(ctx)
			}
		}
	}
}

// joinOrBegin begins a preparation, or joins one with the same key.
func (a *preparationGroup) joinOrBegin(w workers.Preparation, limit time.Duration) *preparation {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byKey[w.Key]
	if p == nil {
		p = a.beginLocked(w, limit)
	}
	p.waiters++
	return p
}

func (a *preparationGroup) beginLocked(w workers.Preparation, limit time.Duration) *preparation {
	if w.Timeout > 0 {
		limit = w.Timeout
	}
	ctx, stop := context.WithCancelCause(context.Background())
	p := &preparation{stop: stop, done: make(chan struct{}), changed: make(chan struct{})}
	if a.byKey == nil {
		a.byKey = make(map[string]*preparation)
	}
	a.byKey[w.Key] = p
	go func() {
		defer close(p.done)
		defer stop(nil)
		late := fmt.Errorf("it was not prepared after %s", limit)
		bounded, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		p.made, p.err = w.Run(bounded, func(now workers.Progress) { a.reportProgress(p, now) })
		if p.err != nil && errors.Is(p.err, context.DeadlineExceeded) && context.Cause(bounded) == late {
			p.err = late
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.forgetLocked(w.Key, p)
	}()
	return p
}

func (a *preparationGroup) reportProgress(p *preparation, now workers.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now.Done = max(now.Done, p.progress.Done)
	p.progress = now
	close(p.changed)
	p.changed = make(chan struct{})
}

// leavePreparation ends one caller's wait. The last waiter to leave ends the work, and waits until it has
// ended.
func (a *preparationGroup) leavePreparation(key string, p *preparation) {
	a.mu.Lock()
	p.waiters--
	last := p.waiters == 0
	if last {
		a.forgetLocked(key, p) // the next caller begins anew instead of joining work that was given up
	}
	a.mu.Unlock()
	if !last {
		return
	}
	p.stop(errNoWaiters)
	select {
	case <-p.done:
	case <-time.After(abandonTimeout):
	}
}

func (a *preparationGroup) forgetLocked(key string, p *preparation) {
	if a.byKey[key] == p {
		delete(a.byKey, key)
	}
}
