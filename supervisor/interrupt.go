package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// interruptWait is how long Interrupt waits for its effect.
	interruptWait = time.Second

	// A worker can miss a signal in the moment before it blocks, so an interrupt
	// that is not acknowledged is repeated after 30, 60, 120, … ms, maxRetries
	// times. Retries carry the same number: they cannot interrupt twice.
	firstRetry = 30 * time.Millisecond
	maxRetries = 6

	// sendLimit is how long a turn waits for the signals of the one before, which
	// takes the stage some microseconds. Then the turn is not run, and says so.
	sendLimit = 10 * time.Second
)

// Interrupt is session.Session's. An input that is still held, because the session
// starts, is dropped and never runs; turn 0 then interrupts the start-up, too.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return s.interruptAs(ctx, "", turn)
}

func (s *Session) interruptAs(ctx context.Context, author string, turn uint64) (session.InterruptResult, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return session.InterruptNotRunning, session.ErrClosed
	}
	if held := s.held; held != nil && (turn == 0 || turn == held.id) {
		s.appendLocked(timeline.Notice{Message: fmt.Sprintf("turn %d was interrupted before it ran", held.id) + by(author)})
		s.dropHeldLocked(timeline.OutcomeInterrupted)
		// Who names no turn means the start-up, too: it may be what never ends.
		if w := s.worker; turn != 0 || s.turn == nil || w == nil || !w.isReady {
			s.mu.Unlock()
			return session.InterruptIdle, nil
		}
	}
	t, w := s.turn, s.worker
	switch {
	case t == nil || w == nil || s.state == session.StateStopping:
		stale := turn != 0 && turn <= s.lastTurn
		s.mu.Unlock()
		if stale {
			return session.InterruptStale, nil
		}
		return session.InterruptNotRunning, nil
	case turn != 0 && turn != t.id:
		s.mu.Unlock()
		return session.InterruptStale, nil
	case t.id == 0 && !w.isReady:
		// A signal now would end the interpreter in the middle of its start.
		s.mu.Unlock()
		return session.InterruptNotRunning, nil
	case t.unsent:
		s.unrunLocked(t, fmt.Sprintf("turn %d was interrupted before it ran", t.id)+by(author))
		s.mu.Unlock()
		return session.InterruptIdle, nil
	}
	seen := s.interruptLocked(w, t, author)
	s.mu.Unlock()
	return s.interrupted(ctx, t, seen)
}

// by is how a notice names an author.
func by(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

// interruptLocked sends one interrupt and returns the newest event before its
// effects.
func (s *Session) interruptLocked(w *worker, t *turn, author string) timeline.Seq {
	t.interrupts++
	level := 1
	if t.escalate {
		level = 2
	}
	t.escalate = false
	seen := s.appendLocked(timeline.Interrupt{Level: level, Author: author}).Seq
	s.dropInputLocked()
	m := ipc.Interrupt{Turn: t.id, Seq: t.interrupts, Level: uint8(level)}
	s.stopRetriesLocked()
	if !w.userHandlesSigint || level > 1 { // else its handler decides whether a reader goes on
		t.unacked = true
		s.dropWaitsLocked()
		if s.state == session.StateWaiting {
			s.resumeLocked()
		}
	}
	w.interrupt(m, true)
	tries := 0
	var timer *time.Timer
	timer = time.AfterFunc(firstRetry, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.interrupts != timer { // stopped in the meantime
			return
		}
		if w.proc.SignalsSent() == nil { // so that at most one is on its way to a worker that has read a frame
			w.interrupt(m, false)
		}
		if tries++; tries < maxRetries {
			timer.Reset(firstRetry << tries)
		} else {
			s.ackedLocked(t) // it never will be; what it asks from now on counts
		}
	})
	s.interrupts = timer
	return seen
}

// ackedLocked takes in that the worker has seen the last interrupt.
func (s *Session) ackedLocked(t *turn) {
	s.stopRetriesLocked()
	s.askAgainLocked(t)
}

// askAgainLocked lets readers that outlive an interrupt ask again, and looks for
// terminal readers again.
func (s *Session) askAgainLocked(t *turn) {
	t.unacked = false
	if w := s.worker; w != nil && w.watching != nil {
		// Not at once: a program that dies of the interrupt is seen reading until it has.
		w.pause = maxPause
		w.lookLaterLocked(maxPause)
	}
}

// dropInputLocked empties the queue, visibly.
func (s *Session) dropInputLocked() {
	if n := s.queue.clear(); n > 0 {
		s.appendLocked(timeline.Notice{Message: fmt.Sprintf("%d bytes of input were not read and were dropped", n)})
	}
}

// stopRetriesLocked ends the retries of an interrupt that was acknowledged or
// is no longer wanted.
func (s *Session) stopRetriesLocked() {
	if s.interrupts != nil {
		s.interrupts.Stop()
		s.interrupts = nil
	}
}

// interrupted waits for what an interrupt leads to.
func (s *Session) interrupted(ctx context.Context, t *turn, seen timeline.Seq) (session.InterruptResult, error) {
	timeout := time.NewTimer(interruptWait)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		if t.outcome != "" {
			s.mu.Unlock()
			return session.InterruptIdle, nil
		}
		if s.state == session.StateWaiting && s.shown.ID > seen {
			t.escalate = true // until something is answered
			s.mu.Unlock()
			return session.InterruptWaiting, nil
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		select {
		case <-changed:
			continue
		case <-timeout.C:
		case <-ctx.Done():
			return session.InterruptPending, ctx.Err()
		}
		s.mu.Lock()
		t.escalate = true
		s.mu.Unlock()
		return session.InterruptPending, nil
	}
}

// interrupt sends the frame first, which names the turn, and then the signal,
// which wakes the runtime. The first goes to the whole foreground; retries go
// to the worker alone, since others would take them for new ones.
func (w *worker) interrupt(m ipc.Interrupt, first bool) {
	if err := w.conn.Send(m); err != nil {
		return // the worker is on its way out; its death is reported
	}
	if w.ready.Capabilities.Interrupt == ipc.InterruptBySelf {
		return
	}
	to := host.Worker
	if first {
		to = host.Group
		_ = w.proc.Signal(host.Interrupt, host.Foreground)
	}
	_ = w.proc.Signal(host.Interrupt, to)
}

// sendLocked sends a turn to the worker.
func (w *worker) sendLocked(t *turn) {
	if err := w.conn.Send(ipc.TurnStart{Turn: t.id, Input: t.input}); err != nil {
		w.failLocked(fmt.Errorf("cannot send the input: %w", err))
	}
	t.input, t.unsent = nil, false
}

// sendBehind sends a turn when the signals of the turn before are sent: what the
// worker reads of it finds them there, and none comes later.
func (w *worker) sendBehind(t *turn, signals <-chan struct{}) {
	timer := time.NewTimer(sendLimit)
	defer timer.Stop()
	sent := false
	select {
	case <-signals:
		sent = true
	case <-w.proc.Exited():
		return // which ends the turn
	case <-timer.C:
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !t.unsent || t.outcome != "" || s.state != session.StateRunning:
	case sent:
		w.sendLocked(t)
	default:
		s.unrunLocked(t, fmt.Sprintf("turn %d was not run: for %s, the interrupt of the turn before could not be sent, and must not reach this one", t.id, sendLimit))
	}
}

// unrunLocked ends a turn that was not sent.
func (s *Session) unrunLocked(t *turn, why string) {
	s.appendLocked(timeline.Notice{Message: why})
	s.endLocked("interrupted", nil, s.prompt)
	s.moveLocked(session.StateIdle)
}
