package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A turn comprises an input and everything up to the worker's idle message. Callers know it by its
// number.
type turn struct {
	id            uint64 // 0 for a start-up, and for an input that answers a prompt of the start-up
	number        uint64 // the number that its caller knows
	input         []byte // nil once it is sent
	lastLine      string // of the input, for the report if the worker exits
	author        string
	silent        bool             // a tool submitted it
	mayExit       bool             // its code may end the worker
	beforeSeq     timeline.Seq     // everything up to it came before the turn
	startSeq      timeline.Seq     // the last event before a worker's start, whose notices belong to the first turn's reply
	lastWorkerEnd []timeline.Event // why the variables of earlier turns are gone, for the first turn's reply
	started       time.Time
	elapsed       time.Duration    // set when the turn ends
	outcome       timeline.Outcome // "" until the turn ends
	outputBytes   int64            // of output
	timeLeft      time.Duration    // until its limit, while the clock is stopped
	overtimeSteps int              // steps taken since it reached its limit
	questionCount int              // permission requests so far
	formCount     int              // form requests so far
	answeredLines []ipc.InputLine  // first and last input line that answered prompts and was not reported yet

	interrupts       uint64       // the Seq of the last interrupt
	interruptUnacked bool         // the worker has not seen that interrupt yet, so its input requests are void
	interruptedAt    time.Time    // time of the first interrupt since an answer, or of the last one with level 2; zero for none
	interruptSeq     timeline.Seq // the event of that interrupt

	interruptedCalls []timeline.AccessDenied // pending calls that an interrupt ended, each until the kernel restarts it
}

// maxKnownTurns bounds the turns that Wait can find by number.
const maxKnownTurns = 256

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
