package terminal

import (
	"context"
	"iter"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A Session is what the person talks to: one of this process's own, see [Local],
// or one that lives elsewhere. Its methods are those of supervisor.Session.
type Session interface {
	Info() supervisor.Info
	Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event]
	Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error)

	Submit(ctx context.Context, code string) error
	Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) error
	Interrupt(ctx context.Context, turn uint64) (supervisor.InterruptResult, error)
	Reset(ctx context.Context) error

	Parse(ctx context.Context, text string) (supervisor.ParseStatus, error)
	Complete(ctx context.Context, text string, cursor int) (supervisor.Completion, error)
	Resize(size supervisor.Size) error
}

// Local is a session of this process's own.
func Local(s *supervisor.Session) Session { return local{s} }

type local struct{ *supervisor.Session }

func (l local) Submit(ctx context.Context, code string) error {
	_, err := l.Session.Submit(ctx, code)
	return err
}

func (l local) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) error {
	turn := l.Current()
	if turn == nil {
		return supervisor.ErrStale
	}
	return turn.Answer(ctx, wait, in)
}
