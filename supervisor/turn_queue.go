package supervisor

import (
	"context"
	"errors"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// A QueuePlace is the place of one input in the queue of a session. Inputs start in the order in which
// they joined the queue. It is for one goroutine.
type QueuePlace struct {
	s       *Session
	first   chan struct{} // closed when it is the first in the queue
	refused chan struct{} // closed when a reset or the end of the session has emptied the queue
	err     error         // guarded by Session.mu; why it was refused; set before refused is closed
}

// QueuedInput holds the properties of an input that waits in a queue.
type QueuedInput struct {
	Author  string
	Silent  bool // as in Session.SubmitSilent
	MayExit bool // as in Session.SubmitMayExit
	Dialect session.InputDialect
}

var _, _ session.TurnQueuer = (*Session)(nil), authoredSession{}

// SubmitQueued implements session.TurnQueuer.
func (s *Session) SubmitQueued(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitQueued(ctx, code, QueuedInput{}))
}

// SubmitQueued implements session.TurnQueuer.
func (a authoredSession) SubmitQueued(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitQueued(ctx, code, QueuedInput{Author: a.author, Dialect: a.dialect}))
}

func (s *Session) submitQueued(ctx context.Context, code string, o QueuedInput) (uint64, error) {
	if len(code) > MaxInputBytes {
		return 0, session.NewTooLargeError(len(code))
	}
	p, err := s.JoinQueue()
	if err != nil {
		return 0, err
	}
	defer p.Leave()
	for {
		if err := p.Wait(ctx); err != nil {
			return 0, err
		}
		if turn, err := p.Submit(ctx, code, o); !isBusy(err) {
			return turn, err
		}
	}
}

// isBusy reports whether an input was refused only because of the active turn.
func isBusy(err error) bool {
	return errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrWaiting)
}

// JoinQueue returns the last place in the queue; see session.TurnQueuer. An error is of
// session.KindQueueFull if session.MaxQueuedInputs inputs wait already. The caller must call Leave.
func (s *Session) JoinQueue() (*QueuePlace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.m.isClosed():
		return nil, s.m.closedError()
	case len(s.queue) >= session.MaxQueuedInputs:
		return nil, session.Errorf(session.KindQueueFull, "%s already wait for session %q; this input was not run", text.Count(len(s.queue), "input"), s.Name())
	}
	p := &QueuePlace{s: s, first: make(chan struct{}), refused: make(chan struct{})}
	if s.queue = append(s.queue, p); len(s.queue) == 1 {
		close(p.first)
	}
	return p, nil
}

// Wait waits until the place is the first and the session accepts an input. An error is that of ctx,
// or says why no input is accepted any more.
func (p *QueuePlace) Wait(ctx context.Context) error {
	select {
	case <-p.first:
	case <-p.refused:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		p.s.mu.Lock()
		err := p.s.refusalLocked(p)
		changed := p.s.changedLocked()
		p.s.mu.Unlock()
		if !isBusy(err) {
			return err
		}
		select {
		case <-changed:
		case <-p.refused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Submit is Session.Submit for the first place in the queue, which it frees if the input is accepted.
// Otherwise the place can still be used, after another Wait.
func (p *QueuePlace) Submit(ctx context.Context, code string, o QueuedInput) (uint64, error) {
	return p.s.submitAs(ctx, code, turn{author: o.Author, turnMode: turnMode{silent: o.Silent, mayExit: o.MayExit, dialect: o.Dialect}}, p)
}

// Leave frees the place. Further calls do nothing.
func (p *QueuePlace) Leave() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.leaveQueueLocked(p)
}

func (s *Session) leaveQueueLocked(p *QueuePlace) {
	i := slices.Index(s.queue, p)
	if i < 0 {
		return
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	if i == 0 && len(s.queue) > 0 {
		close(s.queue[0].first)
	}
}

// refuseQueueLocked empties the queue.
func (s *Session) refuseQueueLocked(err error) {
	for _, p := range s.queue {
		p.err = err
		close(p.refused)
	}
	s.queue = nil
}

// refusalLocked returns why the session refuses an input now, or nil. place is nil for an input that
// does not wait in the queue.
func (s *Session) refusalLocked(place *QueuePlace) error {
	if place != nil && place.err != nil {
		return place.err
	}
	if s.preparationError != nil && !s.m.isClosed() {
		return s.preparationError // only Reset retries: this input may be meant for the attempt that just failed
	}
	if err := s.m.inputRefusal(); err != nil {
		return err
	}
	if len(s.queue) > 0 && s.queue[0] != place {
		e := s.m.busyError().(*session.Error)
		e.Message = text.Count(len(s.queue), "input") + " waited before this one, which was not run"
		return e
	}
	return nil
}
