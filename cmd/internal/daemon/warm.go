package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// warmTime bounds making one warm session, with its code.
const warmTime = 2 * time.Minute

// Warm says which sessions the daemon keeps ready for those who create one.
type Warm struct {
	Language string
	Count    int
	Dir      string // where the first ones work, absolute; "" is the daemon's own
	Code     string // runs in each, as a silent turn; "" is none
}

// A pool keeps the sessions of one language ready. All of them start alike: as the first that it
// made, or as those that clients asked for twice in a row.
type pool struct {
	Warm
	d    *Daemon
	wake chan struct{} // has a token when there may be something to do

	mu      sync.Mutex
	kind    *workers.Spec // guarded by mu, like all fields below; nil before the first look
	missed  *workers.Spec // the last that was asked for and not kept
	ready   []warmSession // the oldest first
	full    bool          // there are as many sessions as may be; until one is closed or taken
	making  *making       // nil while none is made
	failure error         // why no more are made
}

// A warmSession is one that waits for its client. Its stamp is Options.Stamp as it began.
type warmSession struct {
	*supervisor.Session
	stamp string
}

// A making is a session that is not ready yet.
type making struct {
	giveUp context.CancelFunc
	over   chan struct{} // closed when it is ready, or closed again
}

func (d *Daemon) newPools() {
	d.pools = make(map[string]*pool)
	for _, w := range d.o.Warm {
		d.pools[w.Language] = &pool{Warm: w, d: d, wake: make(chan struct{}, 1)}
	}
}

func (d *Daemon) stamp(spec *workers.Spec) string {
	if d.o.Stamp == nil {
		return ""
	}
	return d.o.Stamp(spec)
}

// startsAlike reports whether two workers start in the same way. Those that need a preparation do not.
func startsAlike(a, b *workers.Spec) bool {
	if len(a.Preparations) > 0 || len(b.Preparations) > 0 {
		return false
	}
	x, y := *a, *b
	x.Dir, y.Dir = dirOf(a), dirOf(b)
	x.Preparations, y.Preparations, x.Compilation, y.Compilation = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// dirOf returns the directory in which a worker starts.
func dirOf(spec *workers.Spec) string {
	if spec.Dir != "" {
		return spec.Dir
	}
	dir, _ := os.Getwd()
	return dir
}

// take returns a session that has started as spec says; nil if there is none.
func (p *pool) take(spec *workers.Spec) *supervisor.Session {
	defer p.look() // after the lock is free
	stamp := p.d.stamp(spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind == nil || !startsAlike(p.kind, spec) {
		if p.missed != nil && startsAlike(p.missed, spec) {
			p.kind, p.missed, p.failure = spec, nil, nil
			p.dropLocked(len(p.ready))
		} else if len(spec.Preparations) == 0 {
			p.missed = spec
		}
		return nil
	}
	p.missed = nil
	for len(p.ready) > 0 {
		s := p.ready[0]
		if i, _ := s.Info(context.Background()); i.State == session.StateIdle && s.stamp == stamp {
			p.ready = p.ready[1:]
			return s.Session
		}
		p.dropLocked(1)
	}
	return nil
}

// dropLocked closes the oldest sessions, beside the caller.
func (p *pool) dropLocked(n int) {
	for _, s := range p.ready[:n] {
		p.d.wg.Go(func() { _ = s.Close(context.Background()) })
	}
	p.ready = slices.Delete(p.ready, 0, n)
}

// look makes the pool look again for something to do.
func (p *pool) look() {
	p.mu.Lock()
	p.full = false
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// keep makes sessions, one after the other, until ctx ends. Then it closes those that are left.
func (p *pool) keep(ctx context.Context) {
	for ctx.Err() == nil {
		if kind := p.wanted(); kind != nil {
			p.add(ctx, kind)
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

// wanted returns how one more session would start; nil if none is wanted.
func (p *pool) wanted() *workers.Spec {
	if p.d.admits() != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.full || len(p.ready) >= p.Count || !p.hasRoomLocked() {
		return nil
	}
	if p.kind == nil {
		spec, err := p.d.o.Spec(client.CreateParams{Language: p.Language, Dir: p.Dir})
		if err = cmp.Or(err, spec.Err); err != nil {
			p.failLocked(err)
			return nil
		}
		p.kind = &spec
	}
	return p.kind
}

// hasRoomLocked reports whether one more session as large as those that are ready fits.
func (p *pool) hasRoomLocked() bool {
	var used int64
	for _, s := range p.ready {
		i, _ := s.Info(context.Background())
		used += i.MemoryBytes
	}
	n := int64(len(p.ready))
	return n == 0 || p.d.o.WarmMemory == 0 || used/n*(n+1) <= p.d.o.WarmMemory
}

func (p *pool) failLocked(err error) {
	p.failure = err
	p.d.log.Warn("no session is kept ready", "language", p.Language, "error", err)
}

// add makes one session.
func (p *pool) add(ctx context.Context, kind *workers.Spec) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	m := &making{giveUp, make(chan struct{})}
	defer close(m.over)
	p.mu.Lock()
	p.making = m
	p.mu.Unlock()
	stamp := p.d.stamp(kind)
	s, err := p.make(ctx, kind)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.making = nil
	switch {
	case err != nil && session.KindOf(err) == session.KindLimit:
		p.full = true
	case err != nil && ctx.Err() == nil:
		p.failLocked(err)
	case err == nil && p.kind != kind: // others are asked for meanwhile
		p.d.wg.Go(func() { _ = s.Close(context.Background()) })
	case err == nil:
		p.ready = append(p.ready, warmSession{s, stamp})
	}
}

// make opens a session, waits until it is idle, and runs the code in it.
func (p *pool) make(ctx context.Context, kind *workers.Spec) (*supervisor.Session, error) {
	ctx, stop := context.WithTimeoutCause(ctx, warmTime, fmt.Errorf("it was not ready within %s", warmTime))
	defer stop()
	s, err := p.d.openUnnamed(ctx, *kind)
	if err != nil {
		return nil, err
	}
	if err := p.warmUp(ctx, s); err != nil {
		_ = s.Close(context.Background())
		return nil, err
	}
	return s, nil
}

func (p *pool) warmUp(ctx context.Context, s *supervisor.Session) error {
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
		return fmt.Errorf("its code: %w", cmp.Or(context.Cause(ctx), err))
	case reply.InputRequest != nil:
		return errors.New("its code asks for input")
	case end.Name != "":
		return fmt.Errorf("its code: %s: %s", end.Name, end.Message)
	case reply.Outcome != timeline.OutcomeOK:
		return fmt.Errorf("its code ended with %s", reply.Outcome)
	}
	return nil
}

// openUnnamed opens a session under a name that nobody asks for.
func (d *Daemon) openUnnamed(ctx context.Context, spec workers.Spec) (*supervisor.Session, error) {
	for {
		d.mu.Lock()
		d.warmed++
		name := fmt.Sprintf("warm.%d", d.warmed)
		d.mu.Unlock()
		s, err := d.o.Supervisor.Open(ctx, name, spec)
		if session.KindOf(err) != session.KindExists {
			return s, err
		}
	}
}

// openSession opens a session, or takes one that is ready. Where there are as many as may be, one
// that is ready makes room.
func (d *Daemon) openSession(p client.CreateParams, name string, spec workers.Spec) (*supervisor.Session, error) {
	if pool := d.pools[p.Language]; pool != nil && len(p.Command) == 0 {
		if s := pool.take(&spec); s != nil {
			err := d.o.Supervisor.Rename(s, name)
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
		s, err := d.o.Supervisor.Open(context.Background(), name, spec)
		if session.KindOf(err) != session.KindLimit || !d.makeRoom() {
			return s, err
		}
	}
}

// makeRoom closes one session that is ready, or gives up one that is being made, if there is any.
func (d *Daemon) makeRoom() bool {
	for _, p := range d.pools {
		p.mu.Lock()
		ready, making := p.ready[:min(1, len(p.ready))], p.making
		p.ready, p.full = p.ready[len(ready):], true
		p.mu.Unlock()
		switch {
		case len(ready) > 0:
			_ = ready[0].Close(context.Background())
			return true
		case making != nil:
			making.giveUp()
			<-making.over
			return true
		}
	}
	return false
}

// lookAtPools makes the pools look again: there may be room.
func (d *Daemon) lookAtPools() {
	for _, p := range d.pools {
		p.look()
	}
}

// warm describes the pools, by language.
func (d *Daemon) warm() []client.Warm {
	var all []client.Warm
	for _, p := range d.pools {
		p.mu.Lock()
		w := client.Warm{Language: p.Language, Ready: len(p.ready), Count: p.Count, Dir: p.Dir}
		if p.kind != nil {
			w.Dir = dirOf(p.kind)
		}
		if p.failure != nil {
			w.Failure = p.failure.Error()
		}
		p.mu.Unlock()
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b client.Warm) int { return cmp.Compare(a.Language, b.Language) })
	return all
}
