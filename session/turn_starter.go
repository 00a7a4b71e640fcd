package session

import (
	"context"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A PendingTurn is a turn that is being started or answered. Wait is for one goroutine, Turn
// for any.
type PendingTurn interface {
	// Wait starts or answers the turn, unless that is known to have happened. It then waits like
	// Session.Wait. After a connection error it can be called again: the turn is started, or
	// answered, only once.
	Wait(ctx context.Context, o *WaitOptions) (Reply, error)

	// Turn returns the number of the turn; 0 while it is unknown, and for the start-up, which
	// can be answered, too.
	Turn() uint64
}

// A TurnStarter is a Session that can start or answer a turn and wait for it in one step. Over a
// network that takes one round trip instead of two.
type TurnStarter interface {
	// StartTurn prepares the start of a turn. Nothing happens before its Wait. onStart is called
	// once when the turn has started, possibly in another goroutine while Wait still waits. It
	// must not block, and may be nil.
	StartTurn(code string, onStart func(turn uint64)) PendingTurn

	// StartAnswer is StartTurn for the answer to an input request.
	StartAnswer(request timeline.Seq, in Input, onStart func(turn uint64)) PendingTurn
}

// StartTurn prepares the start of a turn in a session, in one step if possible. onStart may be
// nil.
func StartTurn(s Session, code string, onStart func(turn uint64)) PendingTurn {
	if b, ok := s.(TurnStarter); ok {
		return b.StartTurn(code, onStart)
	}
	return &twoStepTurn{s: s, onStart: onStart, start: func(ctx context.Context) (uint64, error) { return s.Submit(ctx, code) }}
}

// StartAnswer prepares the answer to an input request of a session, in one step if possible.
// onStart may be nil.
func StartAnswer(s Session, request timeline.Seq, in Input, onStart func(turn uint64)) PendingTurn {
	if b, ok := s.(TurnStarter); ok {
		return b.StartAnswer(request, in, onStart)
	}
	return &twoStepTurn{s: s, onStart: onStart, start: func(ctx context.Context) (uint64, error) { return s.Answer(ctx, request, in) }}
}

// twoStepTurn starts a turn with one call, and waits for it with another.
type twoStepTurn struct {
	s       Session
	start   func(context.Context) (turn uint64, err error)
	onStart func(uint64)
	started bool // of the goroutine that calls Wait
	turn    atomic.Uint64
}

// Turn implements PendingTurn.
func (t *twoStepTurn) Turn() uint64 { return t.turn.Load() }

// Wait implements PendingTurn.
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
