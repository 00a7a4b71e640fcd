package supervisor

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Interrupt is session.Session's. An input that is still held, because the session
// starts, is dropped and never runs; turn 0 then interrupts the start-up, too.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return s.loggedInterrupt(turn, "")(s.interruptAs(ctx, "", turn))
}

func (s *Session) interruptAs(ctx context.Context, author string, turn uint64) (session.InterruptResult, error) {
	s.mu.Lock()
	t, seen, known, err := s.m.interrupt(author, turn)
	s.unlock()
	if t == nil {
		return known, err
	}
	return s.interrupted(ctx, t, seen)
}

// interrupted waits for what an interrupt leads to.
func (s *Session) interrupted(ctx context.Context, t *turn, seen timeline.Seq) (session.InterruptResult, error) {
	timeout := time.NewTimer(interruptWait)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		over, asks := t.outcome != "", s.m.phase == phaseWaiting && s.m.shown.ID > seen
		changed := s.changedLocked()
		s.mu.Unlock()
		switch {
		case over:
			return session.InterruptIdle, nil
		case asks:
			return session.InterruptWaiting, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return session.InterruptPending, nil
		case <-ctx.Done():
			return session.InterruptPending, ctx.Err()
		}
	}
}
