package session

import (
	"context"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A PendingTurn is a turn that is being started, or goes on with an answer. It is for one goroutine,
// Turn for any.
type PendingTurn interface {
	// Wait starts or answers the turn if it is not known to be, and waits as Session.Wait. After
	// an error of the way to the session it can be called again: the turn is started, or
	// answered, once.
	Wait(ctx context.Context, o *WaitOptions) (Reply, error)

	// Turn is the number of the turn; 0 while it is not known, and for the start-up, which can be
	// answered.
	Turn() uint64
}

// A TurnStarter is a Session that can start or answer a turn and wait for it in one step. Over a
// network that is one trip instead of two.
type TurnStarter interface {
	// StartTurn returns the start of a turn. Nothing happens before its Wait. begun is called once
	// when the turn is started, perhaps in another goroutine while Wait still waits. It must not
	// wait. nil tells nobody.
	StartTurn(code string, begun func(turn uint64)) PendingTurn

	// StartAnswer is Begin for the answer to a wait.
	StartAnswer(wait timeline.Seq, in Input, begun func(turn uint64)) PendingTurn
}

// StartTurn returns the start of a turn in a session, in one step if it can. begun may be nil.
func StartTurn(s Session, code string, begun func(turn uint64)) PendingTurn {
	if b, ok := s.(TurnStarter); ok {
		return b.StartTurn(code, begun)
	}
	return &twoStepTurn{s: s, onStart: begun, start: func(ctx context.Context) (uint64, error) { return s.Submit(ctx, code) }}
}

// StartAnswer returns the answer to a wait of a session, in one step if it can. begun may be nil.
func StartAnswer(s Session, wait timeline.Seq, in Input, begun func(turn uint64)) PendingTurn {
	if b, ok := s.(TurnStarter); ok {
		return b.StartAnswer(wait, in, begun)
	}
	return &twoStepTurn{s: s, onStart: begun, start: func(ctx context.Context) (uint64, error) { return s.Answer(ctx, wait, in) }}
}

// twoStepTurn begins, and then waits.
type twoStepTurn struct {
	s       Session
	start   func(context.Context) (turn uint64, err error)
	onStart func(uint64)
	started bool // of the goroutine that calls Wait
	turn    atomic.Uint64
}

func (t *twoStepTurn) Turn() uint64 { return t.turn.Load() }

func (t *twoStepTurn) Wait(ctx context.Context, o *WaitOptions) (Reply, error) {
	if !t.started {
		turn, err := t.start(ctx)
		if err != nil {
			return Reply{}, err
		}
		t.started = true
		t.turn.Store(turn)
		if t.onStart != nil {
			t.onStart(turn)
		}
	}
	return t.s.Wait(ctx, t.Turn(), o)
}
