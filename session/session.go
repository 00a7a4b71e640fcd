package session

import (
	"context"
	"iter"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A Session is a named REPL that outlives its workers. It is safe for concurrent
// use. Turns go by number: 1, 2, … for the life of the session; 0 is the start-up
// of a worker.
//
// The errors are those of this package, ctx's, and those of reaching the session.
type Session interface {
	// Name is the session's name. It does no I/O.
	Name() string

	// Author is in whose name the methods write; "" is nobody's. It does no I/O.
	Author() string

	// As is the same session in the name of author, who is recorded with what is
	// submitted, answered or interrupted through it. It does no I/O.
	As(author string) Session

	// Info describes the session now.
	Info(ctx context.Context) (Info, error)

	// Submit starts a turn and returns its number. It refuses an input with ErrBusy or
	// ErrWaiting while a turn is active, and never queues one. While a worker starts,
	// one input is held; it runs when the worker is ready. When the last worker has
	// ended, Submit starts the next one. ctx governs the call, not the turn.
	Submit(ctx context.Context, code string) (turn uint64, err error)

	// Answer answers the wait with this id and returns its turn. What a reader does
	// not consume stays queued for later waits of the same turn. ErrStale means that
	// the wait is over and nothing was consumed.
	Answer(ctx context.Context, wait timeline.Seq, in Input) (turn uint64, err error)

	// Wait returns when the turn has ended, at once when it asks for input, and else
	// at o.Until or when ctx ends. Only the last is an error, ctx's own. It never
	// touches the turn. Turn 0 is whatever is active; when nothing is, Wait returns at
	// once. ErrStale means that the turn is not among the last ones.
	Wait(ctx context.Context, turn uint64, o *WaitOptions) (Reply, error)

	// Interrupt interrupts a turn; 0 means whatever is active. Unread input of the
	// turn is dropped, and a pending wait is over. It waits up to a second for the
	// effect, or until ctx ends. An interrupt after one that did not end the turn, with
	// no answer in between, is of level 2, which user code cannot swallow. An input
	// that is held is dropped.
	Interrupt(ctx context.Context, turn uint64) (InterruptResult, error)

	// Reset ends the worker, whatever it does, and starts a new one.
	Reset(ctx context.Context) error

	// Close ends the session for good.
	Close(ctx context.Context) error

	// Events is every event after the cursor, and then each one as it happens. The
	// last pair has no event, and the error that ended it: ErrClosed when the session
	// was closed, or ctx's. A reader that falls behind sees a timeline.Gap; it never
	// holds the session up.
	Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error]

	// Output reads lines of the rendered output.
	Output(ctx context.Context, q OutputQuery) (Output, error)

	// Complete asks the idle worker how text could go on at cursor, in bytes, Parse
	// whether text is a whole input, and Variables what the code has defined. They
	// are never a turn.
	Complete(ctx context.Context, text string, cursor int) (Completion, error)
	Parse(ctx context.Context, text string) (ParseStatus, error)
	Variables(ctx context.Context) (Variables, error)

	// Resize sets the size of the worker's terminal.
	Resize(ctx context.Context, size Size) error
}
