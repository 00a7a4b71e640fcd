package mcpserver

import (
	"context"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A Host has sessions that outlive the server, and that others may use, too.
type Host interface {
	// Open is the session of that name, made in a directory if it is not there and
	// lang is not ""; else that is session.ErrClosed. MainSession is the name of the
	// one that the client means when it names none: which that is, is the host's to
	// say. It waits for a session that is being prepared, says by report how far that
	// is, and bounds everything else. What could not be prepared is a *PrepareError.
	Open(ctx context.Context, name, lang, dir string, report func(line string)) (*Opened, error)

	// Sessions describes all that there are, by the names that Open takes.
	Sessions(ctx context.Context) ([]session.Info, error)
}

// An Opened is a session as this client has it: one of the server's own, or a Host's.
type Opened struct {
	session.Session // in the client's name

	// OutputPath is the rendered transcript; "" when there is none.
	OutputPath func() string

	// Leave ends the use of the session, which ends one of the server's own.
	Leave func(context.Context) error

	// ByHand is the command with which a person can take part in the session, and
	// answer what the model may not; "" when there is none.
	ByHand string

	Made  bool         // by this Open
	Lacks []string     // what was to be prepared for it, when it is there already without
	Read  timeline.Seq // how far the client had read when it was here before; 0 when it was not

	// Mark remembers that the client knows everything up to seq, for when it comes
	// back. Answers do not wait long for it. nil remembers nothing.
	Mark func(seq timeline.Seq)
}

// own is a session of this server's own: it ends with the server.
func own(s *supervisor.Session, author string) *Opened {
	return &Opened{Session: s.As(author), OutputPath: s.Log().OutputPath, Leave: s.Close, Made: true}
}

// info describes the session; one that cannot be reached has ended.
func (o *Opened) info(ctx context.Context) session.Info {
	i, err := o.Info(ctx)
	if err != nil {
		return session.Info{Name: o.Name(), State: session.StateEnded}
	}
	return i
}
