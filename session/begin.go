package session

import (
	"context"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A Starting is a turn that is being started, or goes on with an answer. It is for one goroutine,
// Turn for any.
type Starting interface {
	// Wait starts or answers the turn if it is not known to be, and waits as Session.Wait. After
	// an error of the way to the session it can be called again: the turn is started, or
	// answered, once.
	Wait(ctx context.Context, o *WaitOptions) (Reply, error)

	// Turn is the number of the turn; 0 while it is not known, and for the start-up, which can be
	// answered.
	Turn() uint64
}

// A Beginner is a Session that can start or answer a turn and wait for it in one step. Over a
// network that is one trip instead of two.
type Beginner interface {
	// Begin returns the start of a turn. Nothing happens before its Wait. begun is called once
	// when the turn is started, perhaps in another goroutine while Wait still waits. It must not
	// wait. nil tells nobody.
	Begin(code string, begun func(turn uint64)) Starting

	// BeginAnswer is Begin for the answer to a wait.
	BeginAnswer(wait timeline.Seq, in Input, begun func(turn uint64)) Starting
}

// Begin returns the start of a turn in a session, in one step if it can. begun may be nil.
func Begin(s Session, code string, begun func(turn uint64)) Starting {
	if b, ok := s.(Beginner); ok {
		return b.Begin(code, begun)
	}
	return &starting{s: s, begun: begun, begin: func(ctx context.Context) (uint64, error) { return s.Submit(ctx, code) }}
}

// BeginAnswer returns the answer to a wait of a session, in one step if it can. begun may be nil.
func BeginAnswer(s Session, wait timeline.Seq, in Input, begun func(turn uint64)) Starting {
	if b, ok := s.(Beginner); ok {
		return b.BeginAnswer(wait, in, begun)
	}
	return &starting{s: s, begun: begun, begin: func(ctx context.Context) (uint64, error) { return s.Answer(ctx, wait, in) }}
}

// starting begins, and then waits.
type starting struct {
	s     Session
	begin func(context.Context) (turn uint64, err error)
	begun func(uint64)
	known bool // of the goroutine that calls Wait
	turn  atomic.Uint64
}

func (t *starting) Turn() uint64 { return t.turn.Load() }

func (t *starting) Wait(ctx context.Context, o *WaitOptions) (Reply, error) {
	if !t.known {
		turn, err := t.begin(ctx)
		if err != nil {
			return Reply{}, err
		}
		t.known = true
		t.turn.Store(turn)
		if t.begun != nil {
			t.begun(turn)
		}
	}
	return t.s.Wait(ctx, t.Turn(), o)
}
