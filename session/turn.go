package session

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/turnstone-repl/turnstone/timeline"
)

// TurnEvents yields the events of a turn: those that it has had so far, then each new one as it
// happens, and its TurnEnded last. It works for a turn that runs and for one that is over. The
// last pair has no event but an error if there is no such turn, if the session is closed, or if
// ctx ends; the turn goes on then. A reader that falls behind gets a timeline.Gap, and never
// delays the turn.
func TurnEvents(ctx context.Context, s Session, turn uint64) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		first, err := s.Read(ctx, ReadQuery{Turn: turn, Limit: 1})
		if err == nil && (turn == 0 || len(first.Events) == 0) {
			err = Errorf(KindInvalid, "turn %d: turns that have code are numbered from 1", turn)
		}
		if err != nil {
			yield(timeline.Event{}, err)
			return
		}
		for e, err := range s.Events(ctx, first.First-1) {
			if err == nil && (e.Turn != turn || e.Between) && !isGap(e) {
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

func isGap(e timeline.Event) bool {
	_, gap := e.Body.(timeline.Gap)
	return gap
}

// Copy writes the text of a turn as it comes, byte for byte and not shortened, until the turn is
// over, and returns how it ended: its outcome, and the name and the message of an error. Text of
// the standard error stream goes to stderr; a nil writer takes nothing. Copy goes on while the
// turn waits for input, which somebody else may answer. A slow writer does not delay the turn.
//
// The error is that of a writer, or as TurnEvents has it, or says which events were lost because
// the writers were so slow that the session had dropped them.
func Copy(ctx context.Context, s Session, turn uint64, stdout, stderr io.Writer) (timeline.TurnEnded, error) {
	var lost error
	for e, err := range TurnEvents(ctx, s, turn) {
		if err != nil {
			return timeline.TurnEnded{}, err
		}
		switch b := e.Body.(type) {
		case timeline.TurnEnded:
			return b, lost
		case timeline.Gap:
			lost = fmt.Errorf("session: %s of the output were lost: the events %d to %d", timeline.ByteCount(b.Bytes), b.From, b.To)
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
// error. ok is false while it runs, or when its end is not among the events.
func (r Reply) End() (end timeline.TurnEnded, ok bool) {
	for _, e := range r.Events {
		if b, is := e.Body.(timeline.TurnEnded); is && e.Turn == r.Turn {
			end, ok = b, true
		}
	}
	return end, ok
}
