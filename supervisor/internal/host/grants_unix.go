//go:build linux || darwin

package host

import (
	"sync"
	"time"
)

// grantLimit bounds the time of a grant, which takes less than a millisecond.
const grantLimit = 5 * time.Second

// grants are the grants that the stage has not answered yet.
type grants struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]func(error) // takes the answer
}

func (g *grants) begin() (id uint64, answer chan error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[uint64]func(error){}
	}
	g.last++
	answer = make(chan error, 1)
	g.open[g.last] = func(err error) { answer <- err }
	return g.last, answer
}

func (g *grants) forget(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, id)
}

func (g *grants) answered(r *report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer, ok := g.open[r.ID]
	if !ok {
		return
	}
	delete(g.open, r.ID)
	if r.Step == "" {
		answer(nil)
	} else {
		answer(r.failure())
	}
}

// later has the answer of a grant taken when it comes, and reports whether it has not come yet.
func (g *grants) later(id uint64, take func(error)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, open := g.open[id]
	if open {
		g.open[id] = func(err error) { go take(err) } // which may take its time
	}
	return open
}

func (s *staged) permit(id uint64, ok bool) error {
	return s.order(order{Do: doPermit, ID: id, OK: ok})
}

// forget counts as a signal, so that the next turn waits until the stage has obeyed.
func (s *staged) forget() error {
	return s.counted(func() error { return s.order(order{Do: doForget}) })
}

// refresh counts as a signal as well.
func (s *staged) refresh() (notices []string, err error) {
	if s.sandbox == nil {
		return nil, nil
	}
	changed, notices := s.sandbox.Changed()
	if changed == nil || !s.confined {
		return notices, nil
	}
	return notices, s.counted(func() error { return s.order(order{Do: doRefresh, Grant: changed}) })
}

// look protects what git's settings lead to since a turn has begun.
func (s *staged) look() {
	if changed := s.sandbox.Reached(); changed != nil {
		_ = s.counted(func() error { return s.order(order{Do: doRefresh, Grant: changed}) }) // the stage is gone if it fails
	}
}

func (s *staged) grant(path string, read bool, is string, late func()) error {
	if !s.confined {
		return errUnconfined
	}
	g, err := s.sandbox.NewGrant(path, read, is)
	if g == nil {
		return err
	}
	id, answer := s.grants.begin()
	if err := s.order(order{Do: doGrant, ID: id, Grant: g}); err != nil {
		s.grants.forget(id)
		return err
	}
	timer := time.NewTimer(grantLimit)
	defer timer.Stop()
	select {
	case err = <-answer:
	case <-timer.C:
		if s.grants.later(id, func(err error) {
			if err == nil {
				s.sandbox.Granted(g)
				late()
			}
		}) {
			return ErrUnanswered
		}
		err = <-answer
	}
	if err == nil {
		s.sandbox.Granted(g)
	}
	return err
}
