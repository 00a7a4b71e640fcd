package supervisor

import (
	"context"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// authoredSession is a view of a Session for one caller. Its calls are recorded under the author's name,
// and its inputs are in the dialect.
type authoredSession struct {
	*Session
	author  string
	dialect session.InputDialect
}

// As implements session.Session.
func (s *Session) As(author string) session.Session {
	return authoredSession{s, "", ""}.As(author)
}

// InDialect implements session.Session.
func (s *Session) InDialect(dialect session.InputDialect) session.Session {
	return authoredSession{s, "", ""}.InDialect(dialect)
}

func (a authoredSession) As(author string) session.Session {
	a.author = author
	return a.view()
}

func (a authoredSession) InDialect(dialect session.InputDialect) session.Session {
	a.dialect = dialect
	return a.view()
}

// view returns the session itself if nothing distinguishes its caller.
func (a authoredSession) view() session.Session {
	if a.author == "" && a.dialect == "" {
		return a.Session
	}
	return a
}

// Author implements session.Session. It is always empty: see [Session.As].
func (s *Session) Author() string { return "" }

func (a authoredSession) Author() string { return a.author }

func (a authoredSession) Submit(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author, turnMode: turnMode{dialect: a.dialect}}, nil))
}

func (a authoredSession) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author, turnMode: turnMode{dialect: a.dialect, silent: true}}, nil))
}

func (a authoredSession) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return a.logCall("submit", a.author)(a.submitAs(ctx, code, turn{author: a.author, turnMode: turnMode{dialect: a.dialect, mayExit: true}}, nil))
}

func (a authoredSession) Parse(ctx context.Context, text string) (session.ParseStatus, error) {
	return a.parseIn(ctx, a.dialect, text)
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
