package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// warmUpTimeout bounds the start of one warm session, including its code.
const warmUpTimeout = 2 * time.Minute

// WarmPoolOptions configure the warm sessions of one language.
type WarmPoolOptions struct {
	Language string
	Count    int
	Dir      string // absolute working directory of the first sessions; "" means the daemon's own
	Code     string // runs in each, as a silent turn; "" means no code
}

// A warmPool keeps idle sessions of one language ready for clients. All of them start in the same
// way: at first as WarmPoolOptions say, later as two requests in a row have asked.
type warmPool struct {
	WarmPoolOptions
	daemon *Daemon
	wake   chan struct{} // holds one token when the pool may have something to do

	mu         sync.Mutex
	spec       *workers.Spec   // guarded by mu, like all fields below; nil before the first session
	lastMissed *workers.Spec   // the last request that the pool could not serve; nil after a hit
	ready      []warmSession   // the oldest first
	isFull     bool            // the supervisor is at its limit; false again when a session is closed or taken
	pending    *pendingSession // nil unless one is being started
	failure    error           // why the pool starts no more sessions
}

// A warmSession is an idle session without a client. stamp is Options.StartStamp at its start.
type warmSession struct {
	*supervisor.Session
	stamp string
}

// A pendingSession is a warm session that is still being started.
type pendingSession struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it is ready, or has failed
}

func (d *Daemon) newWarmPools() {
	d.warmPools = make(map[string]*warmPool)
	for _, w := range d.options.WarmPools {
		d.warmPools[w.Language] = &warmPool{WarmPoolOptions: w, daemon: d, wake: make(chan struct{}, 1)}
	}
}

// startStamp returns the stamp of the files on which a start depends; "" without
// Options.StartStamp.
func (d *Daemon) startStamp(spec *workers.Spec) string {
	if d.options.StartStamp == nil {
		return ""
	}
	return d.options.StartStamp(spec)
}

// isSameStart reports whether two workers start in the same way. A worker that needs a preparation
// is never the same as another.
func isSameStart(a, b *workers.Spec) bool {
	if len(a.Preparations) > 0 || len(b.Preparations) > 0 {
		return false
	}
	x, y := *a, *b
	x.Dir, y.Dir = workDir(a), workDir(b)
	x.Preparations, y.Preparations, x.Compilation, y.Compilation = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// workDir returns the directory in which a worker starts.
func workDir(spec *workers.Spec) string {
	if spec.Dir != "" {
		return spec.Dir
	}
	dir, _ := os.Getwd()
	return dir
}

// takeSession returns a warm session that was started as spec says, or nil.
func (p *warmPool) takeSession(spec *workers.Spec) *supervisor.Session {
	defer p.checkAgain() // runs after the lock is released
	stamp := p.daemon.startStamp(spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spec == nil || !isSameStart(p.spec, spec) {
		if p.lastMissed != nil && isSameStart(p.lastMissed, spec) {
			p.spec, p.lastMissed, p.failure = spec, nil, nil
			p.closeOldestLocked(len(p.ready))
		} else if len(spec.Preparations) == 0 {
			p.lastMissed = spec
		}
		return nil
	}
	p.lastMissed = nil
	for len(p.ready) > 0 {
		s := p.ready[0]
		if i, _ := s.Info(context.Background()); i.State == session.StateIdle && s.stamp == stamp {
			p.ready = p.ready[1:]
			return s.Session
		}
		p.closeOldestLocked(1)
	}
	return nil
}

// closeOldestLocked closes the n oldest sessions, concurrently with the caller.
func (p *warmPool) closeOldestLocked(n int) {
	for _, s := range p.ready[:n] {
		p.daemon.wg.Go(func() { _ = s.Close(context.Background()) })
	}
	p.ready = slices.Delete(p.ready, 0, n)
}

// checkAgain makes the pool check whether it can start a session.
func (p *warmPool) checkAgain() {
	p.mu.Lock()
	p.isFull = false
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// fillUntilDone starts sessions, one after the other, until ctx ends. Then it closes the remaining
// ones.
func (p *warmPool) fillUntilDone(ctx context.Context) {
	for ctx.Err() == nil {
		if spec := p.nextSpec(); spec != nil {
			p.addSession(ctx, spec)
			continue
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	left := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, s := range left {
		_ = s.Close(context.Background())
	}
}

// nextSpec returns the spec of the next session to start, or nil if the pool needs none.
func (p *warmPool) nextSpec() *workers.Spec {
	if p.daemon.checkAdmission() != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.isFull || len(p.ready) >= p.Count || !p.hasRoomLocked() {
		return nil
	}
	if p.spec == nil {
		spec, err := p.daemon.options.FindSpec(protocol.CreateParams{Language: p.Language, Dir: p.Dir})
		if err = cmp.Or(err, spec.Err); err != nil {
			p.setFailureLocked(err)
			return nil
		}
		p.spec = &spec
	}
	return p.spec
}

// hasRoomLocked reports whether one more session of the average size fits into Options.WarmMemory.
func (p *warmPool) hasRoomLocked() bool {
	var used int64
	for _, s := range p.ready {
		i, _ := s.Info(context.Background())
		used += i.MemoryBytes
	}
	n := int64(len(p.ready))
	return n == 0 || p.daemon.options.WarmMemory == 0 || used/n*(n+1) <= p.daemon.options.WarmMemory
}

// setFailureLocked stores why the pool starts no more sessions, and logs it.
func (p *warmPool) setFailureLocked(err error) {
	p.failure = err
	p.daemon.log.Warn("warm session failed", "language", p.Language, "error", err)
}

// addSession starts one session and adds it to the pool.
func (p *warmPool) addSession(ctx context.Context, spec *workers.Spec) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &pendingSession{cancel, make(chan struct{})}
	defer close(m.done)
	p.mu.Lock()
	p.pending = m
	p.mu.Unlock()
	stamp := p.daemon.startStamp(spec)
	s, err := p.makeSession(ctx, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = nil
	switch {
	case err != nil && session.KindOf(err) == session.KindLimit:
		p.isFull = true
	case err != nil && ctx.Err() == nil:
		p.setFailureLocked(err)
	case err == nil && p.spec != spec: // clients have requested another kind of start in the meantime
		p.daemon.wg.Go(func() { _ = s.Close(context.Background()) })
	case err == nil:
		p.ready = append(p.ready, warmSession{s, stamp})
	}
}

// makeSession opens a session, waits until it is idle, and runs the code in it.
func (p *warmPool) makeSession(ctx context.Context, spec *workers.Spec) (*supervisor.Session, error) {
	ctx, stop := context.WithTimeoutCause(ctx, warmUpTimeout, fmt.Errorf("the session was not ready within %s", warmUpTimeout))
	defer stop()
	s, err := p.daemon.openUnnamed(ctx, *spec)
	if err != nil {
		return nil, err
	}
	if err := p.warmUp(ctx, s); err != nil {
		_ = s.Close(context.Background())
		return nil, err
	}
	return s, nil
}

// warmUp waits until a session is idle, and runs the code of the pool in it.
func (p *warmPool) warmUp(ctx context.Context, s *supervisor.Session) error {
	if _, err := s.Wait(ctx, 0, nil); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if p.Code == "" {
		return nil
	}
	turn, err := s.SubmitSilent(ctx, p.Code)
	if err != nil {
		return err
	}
	reply, err := s.Wait(ctx, turn, nil)
	end, _ := reply.End()
	switch {
	case err != nil:
		return fmt.Errorf("the warm-up code: %w", cmp.Or(context.Cause(ctx), err))
	case reply.InputRequest != nil:
		return errors.New("the warm-up code asks for input")
	case end.Name != "":
		return fmt.Errorf("the warm-up code: %s: %s", end.Name, end.Message)
	case reply.Outcome != timeline.OutcomeOK:
		return fmt.Errorf("the warm-up code ended with %s", reply.Outcome)
	}
	return nil
}

// openUnnamed opens a session under a temporary name, such as warm.1.
func (d *Daemon) openUnnamed(ctx context.Context, spec workers.Spec) (*supervisor.Session, error) {
	for {
		d.mu.Lock()
		d.warmCounter++
		name := fmt.Sprintf("warm.%d", d.warmCounter)
		d.mu.Unlock()
		s, err := d.options.Supervisor.Open(ctx, name, spec)
		if session.KindOf(err) != session.KindExists {
			return s, err
		}
	}
}

// acquireSession takes a warm session if one fits, or opens a session. At the limit of the
// supervisor, it closes a warm session to make room.
func (d *Daemon) acquireSession(p protocol.CreateParams, name string, spec workers.Spec) (*supervisor.Session, error) {
	if pool := d.warmPools[p.Language]; pool != nil && len(p.Command) == 0 {
		if s := pool.takeSession(&spec); s != nil {
			err := d.options.Supervisor.Rename(s, name)
			if err == nil {
				return s, nil
			}
			_ = s.Close(context.Background())
			if session.KindOf(err) != session.KindClosed {
				return nil, err
			}
		}
	}
	for {
		s, err := d.options.Supervisor.Open(context.Background(), name, spec)
		if session.KindOf(err) != session.KindLimit || !d.evictWarmSession() {
			return s, err
		}
	}
}

// evictWarmSession closes a warm session, or cancels the start of one. It returns false if there is
// none.
func (d *Daemon) evictWarmSession() bool {
	for _, p := range d.warmPools {
		p.mu.Lock()
		ready, pending := p.ready[:min(1, len(p.ready))], p.pending
		p.ready, p.isFull = p.ready[len(ready):], true
		p.mu.Unlock()
		switch {
		case len(ready) > 0:
			_ = ready[0].Close(context.Background())
			return true
		case pending != nil:
			pending.cancel()
			<-pending.done
			return true
		}
	}
	return false
}

// wakePools makes all pools check whether they can start a session.
func (d *Daemon) wakePools() {
	for _, p := range d.warmPools {
		p.checkAgain()
	}
}

// describePools describes the pools, sorted by language.
func (d *Daemon) describePools() []protocol.WarmPool {
	var all []protocol.WarmPool
	for _, p := range d.warmPools {
		p.mu.Lock()
		w := protocol.WarmPool{Language: p.Language, Ready: len(p.ready), Count: p.Count, Dir: p.Dir}
		if p.spec != nil {
			w.Dir = workDir(p.spec)
		}
		if p.failure != nil {
			w.Failure = p.failure.Error()
		}
		p.mu.Unlock()
		all = append(all, w)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Language < all[j].Language })
	return all
}
