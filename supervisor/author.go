package supervisor

import (
	"context"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// authoredSession is a view of a Session whose calls are recorded under one author's name.
type authoredSession struct {
	*Session
	author string
}

// As implements session.Session.
func (s *Session) As(author string) session.Session {
	if author == "" {
		return s
	}
	return authoredSession{s, author}
}

// Author implements session.Session. It is always empty: see [Session.As].
func (s *Session) Author() string { return "" }

func (a authoredSession) Author() string { return a.author }

func (a authoredSession) Submit(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author}, nil))
}

func (a authoredSession) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author, silent: true}, nil))
}

func (a authoredSession) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author, mayExit: true}, nil))
}

func (a authoredSession) Answer(ctx context.Context, request timeline.Seq, in session.Input) (uint64, error) {
	return a.logCall("answer", a.author)(a.answerAs(ctx, a.author, request, in))
}

func (a authoredSession) Type(ctx context.Context, keys session.Keys) (uint64, error) {
	return a.logCall("type", a.author)(a.typeAs(ctx, a.author, keys))
}

func (a authoredSession) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return a.logInterrupt(turn, a.author)(a.interruptAs(ctx, a.author, turn))
}

func (a authoredSession) Allow(ctx context.Context, g session.Grant) error {
	return a.allowAs(ctx, a.author, g)
}

func (a authoredSession) AnswerPermission(ctx context.Context, id uint64, ok bool) error {
	return a.permitAs(ctx, a.author, id, ok)
}

var _ session.Session = (*Session)(nil)
