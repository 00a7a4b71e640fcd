package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
)

// InterruptResult says what an interrupt led to.
type InterruptResult string

const (
	InterruptIdle       InterruptResult = "idle"        // the turn is over
	InterruptWaiting    InterruptResult = "waiting"     // the turn asks for input again
	InterruptPending    InterruptResult = "pending"     // sent, and nothing came of it yet
	InterruptStale      InterruptResult = "stale"       // that turn is not the active one
	InterruptNotRunning InterruptResult = "not running" // no turn is active
)

const (
	// interruptWait is how long Interrupt waits for its effect.
	interruptWait = time.Second

	// A worker can miss a signal in the moment before it blocks, so an interrupt
	// that is not acknowledged is repeated after 30, 60, 120, … ms, maxRetries
	// times. Retries carry the same number: they cannot interrupt twice.
	firstRetry = 30 * time.Millisecond
	maxRetries = 6
)

// Interrupt interrupts a turn; 0 means whatever is active. Unread input of the
// turn is dropped and a pending wait is over. It waits up to a second for the
// effect, or until ctx ends. An interrupt after one that did not end the turn, with
// no answer in between, is of level 2, which user code cannot swallow. An input that
// is still held, because the session starts, is dropped and never runs; turn 0 then
// interrupts the start-up, too.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (InterruptResult, error) {
	return s.InterruptAs(ctx, "", turn)
}

// InterruptAs is Interrupt in the name of author, who is recorded with it.
func (s *Session) InterruptAs(ctx context.Context, author string, turn uint64) (InterruptResult, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return InterruptNotRunning, ErrClosed
	}
	if held := s.held; held != nil && (turn == 0 || turn == held.id) {
		s.appendLocked(timeline.Notice{Message: fmt.Sprintf("turn %d was interrupted before it ran", held.id) + by(author)})
		s.dropHeldLocked("interrupted")
		// Who names no turn means the start-up, too: it may be what never ends.
		if w := s.worker; turn != 0 || s.turn == nil || w == nil || !w.isReady {
			s.mu.Unlock()
			return InterruptIdle, nil
		}
	}
	t, w := s.turn, s.worker
	switch {
	case t == nil || w == nil || s.state == StateStopping:
		stale := turn != 0 && turn <= s.lastTurn
		s.mu.Unlock()
		if stale {
			return InterruptStale, nil
		}
		return InterruptNotRunning, nil
	case turn != 0 && turn != t.id:
		s.mu.Unlock()
		return InterruptStale, nil
	case t.id == 0 && !w.isReady:
		// A signal now would end the interpreter in the middle of its start.
		s.mu.Unlock()
		return InterruptNotRunning, nil
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
func (s *Session) interruptLocked(w *worker, t *Turn, author string) timeline.Seq {
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
		if s.state == StateWaiting {
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
		w.interrupt(m, false)
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
func (s *Session) ackedLocked(t *Turn) {
	s.stopRetriesLocked()
	s.askAgainLocked(t)
}

// askAgainLocked lets readers that outlive an interrupt ask again, and looks for
// terminal readers again.
func (s *Session) askAgainLocked(t *Turn) {
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
func (s *Session) interrupted(ctx context.Context, t *Turn, seen timeline.Seq) (InterruptResult, error) {
	timeout := time.NewTimer(interruptWait)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		if t.outcome != "" {
			s.mu.Unlock()
			return InterruptIdle, nil
		}
		if s.state == StateWaiting && s.shown.ID > seen {
			t.escalate = true // until something is answered
			s.mu.Unlock()
			return InterruptWaiting, nil
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		select {
		case <-changed:
			continue
		case <-timeout.C:
		case <-ctx.Done():
			return InterruptPending, ctx.Err()
		}
		s.mu.Lock()
		t.escalate = true
		s.mu.Unlock()
		return InterruptPending, nil
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
