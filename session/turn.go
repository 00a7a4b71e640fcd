package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
)

// TurnEvents yields the events of a turn: past ones, then each new one as it happens, and its
// TurnEnded last. It works for a turn that is over, for a running one, and for one that has not
// started because its worker is still starting: then it waits.
//
// The last pair may have an error in place of an event: the turn does not exist or never ran (of
// KindStale), the session is closed, or ctx has ended. The end of ctx does not end the turn. A
// reader that falls behind gets a timeline.Gap, and never delays the turn.
func TurnEvents(ctx context.Context, s Session, turn uint64) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		before, err := waitForTurnStart(ctx, s, turn)
		if err != nil {
			yield(timeline.Event{}, err)
			return
		}
		for e, err := range s.Events(ctx, before) {
			if err == nil && (e.Turn != turn || e.BetweenTurns) && !isGap(e) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
			if _, over := e.Body.(timeline.TurnEnded); over {
				return
			}
		}
	}
}

// waitForTurnStart waits until a turn has started, and returns the cursor before its first
// event.
func waitForTurnStart(ctx context.Context, s Session, turn uint64) (before timeline.Seq, err error) {
	if turn == 0 {
		return 0, Errorf(KindInvalid, "turn 0 has no code; turns are numbered from 1")
	}
	before, err = cursorBeforeTurn(ctx, s, turn)
	if !errors.Is(err, ErrStale) {
		return before, err
	}
	unknown := err
	now, err := s.Info(ctx)
	if err != nil {
		return 0, err
	}
	died := ""
	look := func() (before timeline.Seq, known bool, err error) {
		ended := checkTurnQueued(ctx, s, turn, unknown)
		if before, err = cursorBeforeTurn(ctx, s, turn); !errors.Is(err, ErrStale) { // after checkTurnQueued: it may already be over
			return before, true, err
		}
		if ended != nil {
			ended = &Error{Kind: KindOf(ended), Message: ended.Error() + died, Cause: ended}
		}
		return 0, ended != nil, ended
	}
	if before, known, err := look(); known {
		return before, err
	}
	// From here on, a turn that starts, or will never start, has an event after now.LastSeq.
	for e, err := range s.Events(ctx, now.LastSeq) {
		if err != nil {
			return 0, err
		}
		switch b := e.Body.(type) {
		case timeline.TurnStarted:
			if e.Turn == turn {
				return e.Seq - 1, nil
			}
			continue
		case timeline.WorkerExited:
			died = ": " + b.FullReason()
		case timeline.Gap, timeline.Notice: // the turn may have started in the gap, and the notice may be of an interrupt
		default:
			continue
		}
		if before, known, err := look(); known {
			return before, err
		}
	}
	return 0, ErrClosed // unreachable: the events end with an error
}

// cursorBeforeTurn returns the cursor before the first event of a turn. ErrStale means that the
// turn has no events.
func cursorBeforeTurn(ctx context.Context, s Session, turn uint64) (before timeline.Seq, err error) {
	p, err := s.Read(ctx, ReadQuery{Turn: turn, Limit: 1})
	if err == nil && len(p.Events) == 0 {
		err = Errorf(KindStale, "turn %d has no events", turn)
	}
	return max(p.First, 1) - 1, err
}

// checkTurnQueued returns nil for a turn that is queued. unknown is the error for an unknown
// turn.
func checkTurnQueued(ctx context.Context, s Session, turn uint64, unknown error) error {
	r, err := s.Wait(ctx, turn, &WaitOptions{Poll: true, HeadBytes: 1, TailBytes: 1})
	switch {
	case errors.Is(err, ErrStale), err == nil && r.Turn != turn:
		return unknown
	case err == nil && r.Outcome != "":
		return Errorf(KindStale, "turn %d is over (%s): it did not run, or its events are lost", turn, r.Outcome)
	}
	return err
}

func isGap(e timeline.Event) bool {
	_, gap := e.Body.(timeline.Gap)
	return gap
}

// CopyOutput writes the text of a turn as it arrives, byte for byte and unabridged, until the turn
// is over. It returns how the turn ended: its outcome, and the name and the message of an error.
// Text of the standard error stream goes to stderr; a nil writer discards it. CopyOutput continues
// while the turn waits for input, which another client may give. A slow writer does not delay the
// turn.
//
// The error comes from a writer or from TurnEvents. It may also say which events the session had
// dropped before slow writers took them.
func CopyOutput(ctx context.Context, s Session, turn uint64, stdout, stderr io.Writer) (timeline.TurnEnded, error) {
	var lost error
	for e, err := range TurnEvents(ctx, s, turn) {
		if err != nil {
			return timeline.TurnEnded{}, err
		}
		switch b := e.Body.(type) {
		case timeline.TurnEnded:
			return b, lost
		case timeline.Gap:
			lost = fmt.Errorf("session: %s of the output were lost (events %d to %d)", text.Bytes(b.Bytes), b.From, b.To)
		case timeline.Text:
			w := stdout
			if b.Stream == timeline.Stderr {
				w = stderr
			}
			if w == nil {
				continue
			}
			if _, err := w.Write(b.Data); err != nil {
				return timeline.TurnEnded{}, err
			}
		}
	}
	return timeline.TurnEnded{}, ErrClosed // unreachable: the events end with an error
}

// End returns how the turn of the reply ended: its outcome, and the name and the message of an
// error. ok is false while it runs, or if its end is not among the events.
func (r Reply) End() (end timeline.TurnEnded, ok bool) {
	for _, e := range r.Events {
		if b, is := e.Body.(timeline.TurnEnded); is && e.Turn == r.Turn {
			end, ok = b, true
		}
	}
	return end, ok
}
