package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// findTurn returns the turn with this number.
func (m *sessionMachine) findTurn(number uint64) (*turn, error) {
	for _, t := range slices.Backward(m.recentTurns) {
		if t.number == number {
			return t, nil
		}
	}
	return nil, &session.Error{Kind: session.KindStale, Message: fmt.Sprintf("turn %d is not among the last %d", number, maxKnownTurns)}
}

// State returns the state of the session.
func (s *Session) State() session.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.phase.state()
}

// ActiveTurn returns the number of the active turn, or 0 between turns and during a start-up.
func (s *Session) ActiveTurn() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.turn == nil {
		return 0
	}
	return s.m.turn.id
}

// Wait implements session.Session. It knows the last 256 turns of the session. It fills the reply
// even when ctx ends.
func (s *Session) Wait(ctx context.Context, number uint64, o *session.WaitOptions) (session.Reply, error) {
	defer s.beginUse()()
	if number == 0 {
		return s.waitReply(ctx, nil, o)
	}
	s.mu.Lock()
	t, err := s.m.findTurn(number)
	s.mu.Unlock()
	if err != nil {
		return session.Reply{}, err
	}
	return s.waitReply(ctx, t, o)
}

// waitReply implements Wait for one turn, or for the active one if t is nil.
func (s *Session) waitReply(ctx context.Context, t *turn, opts *session.WaitOptions) (session.Reply, error) {
	var o session.WaitOptions
	if opts != nil {
		o = *opts
	}
	var timeout <-chan time.Time
	var err error
	if o.Timeout > 0 && !o.Poll {
		timer := time.NewTimer(o.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	for over := o.Poll; ; {
		s.mu.Lock()
		if over || s.m.isWaitOver(t) {
			r := s.m.newReply(t)
			r.Session = s.Name()
			r.PendingCalls = s.functions.runningCalls()
			if s.worker != nil && s.worker.typing.sawKeys && r.State == session.StateRunning {
				r.UnreadKeys = s.worker.proc.terminal.UnreadInput()
			}
			var start timeline.ReadRange
			var workerEnd []timeline.Event
			if o.After == 0 && t != nil {
				workerEnd = t.lastWorkerEnd
			}
			switch {
			case o.After > 0 || t == nil:
			case t.outcome == timeline.OutcomeEnded && t.started.IsZero(): // the events of the start explain it
				o.After = t.startSeq
			default:
				o.After = t.beforeSeq
				start = timeline.ReadRange{After: t.startSeq, Before: t.beforeSeq + 1, MaxEvents: maxStartEvents, MaxBytes: session.MaxReadBytes}
			}
			s.mu.Unlock()
			s.fillReply(&r, o)
			r.Events = slices.Concat(workerEnd, s.startNotices(start), r.Events)
			return r, err
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			over = true
		case <-ctx.Done():
			err = ctx.Err()
			over = true
		}
	}
}

// maxStartEvents bounds the events of a start that are searched for notices.
const maxStartEvents = 256

// startNotices returns the notices of a worker's start from before its first turn was submitted.
// Text that the start wrote does not belong to the turn.
func (s *Session) startNotices(start timeline.ReadRange) []timeline.Event {
	if start.After+1 >= start.Before {
		return nil
	}
	return slices.DeleteFunc(s.log.Read(start), func(e timeline.Event) bool {
		_, notice := e.Body.(timeline.Notice)
		return !notice
	})
}

// isWaitOver reports whether a wait for a turn, or for the active one if t is nil, is over. If the
// worker is ending on its own, the wait lasts until the reason is known.
func (m *sessionMachine) isWaitOver(t *turn) bool {
	if t == nil {
		return m.phase != phaseLeaving && (m.phase == phaseWaiting || !m.phase.state().IsActive())
	}
	return t.outcome != "" || m.phase == phaseWaiting && (m.turn == t || m.earlyTurn == t)
}

// newReply returns the reply of a Wait, without the events.
func (m *sessionMachine) newReply(t *turn) session.Reply {
	if t == nil {
		if t = m.turn; t == nil {
			t = m.previousTurn
		}
	}
	r := session.Reply{
		Generation: m.generation,
		State:      m.phase.state(),
		Prompt:     m.prompt,
		Next:       m.log.LastSeq(),
	}
	if t != nil {
		r.Turn = t.id
		r.Outcome = t.outcome
		r.OutputBytes = t.outputBytes
		r.Elapsed = t.elapsed
		switch {
		case t.outcome != "":
		case !t.started.IsZero():
			r.Elapsed = time.Since(t.started)
		case m.turn != nil: // t is queued until that turn ends
			r.Elapsed = time.Since(m.turn.started)
		default:
			r.Elapsed = time.Since(m.stateSince)
		}
	}
	if m.phase == phaseWaiting {
		w := m.shownRequest.InputRequest
		r.InputRequest = &w
		r.Prompt = w.Prompt
	}
	r.Listener = m.currentListener()
	return r
}

// fillReply reads the events of a reply, which may require reading from disk.
func (s *Session) fillReply(r *session.Reply, o session.WaitOptions) {
	if o.HeadBytes == 0 {
		o.HeadBytes = session.DefaultReplyBytes
	}
	if o.TailBytes == 0 {
		o.TailBytes = session.DefaultReplyBytes
	}
	r.Events = s.log.Window(o.After, o.HeadBytes, o.TailBytes)
	if n := len(r.Events); n > 0 {
		// Events may have arrived since the state was read. They are part of the reply, so the
		// cursor is after them.
		last := r.Events[n-1]
		r.Next = last.Seq
		switch body := last.Body.(type) {
		case timeline.Omitted:
			r.Next = body.To
		case timeline.Gap:
			r.Next = body.To
		}
	}
}
