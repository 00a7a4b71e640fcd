package mcpserver

import (
	"context"
	"iter"
	"regexp"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A Host has sessions that outlive the server, and that others may use, too.
type Host interface {
	// Open is the session of that name, made in a directory if it is not there and
	// lang is not ""; else that is supervisor.ErrClosed. MainSession is the name of the
	// one that the client means when it names none: which that is, is the host's to
	// say. It waits for a session that is being prepared, says by report how far that
	// is, and bounds everything else. What could not be prepared is a *PrepareError.
	Open(ctx context.Context, name, lang, dir string, report func(line string)) (Opened, error)

	// Sessions describes all that there are, by the names that Open takes.
	Sessions(ctx context.Context) ([]supervisor.Info, error)
}

// An Opened is a session of a Host's, and how it was found.
type Opened struct {
	Session
	Made  bool     // by this Open
	Lacks []string // what was to be prepared for it, when it is there already without
}

// A Session is what the tools are about: one of this server's own, or of a Host.
// Its methods are those of supervisor.Session and of its timeline.
type Session interface {
	Info() supervisor.Info
	Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event]
	Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error)

	Submit(ctx context.Context, code string) (Turn, error)
	Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) (Turn, error)
	Active(id uint64) (Turn, bool) // the turn of that number, if it is active
	Interrupt(ctx context.Context, turn uint64) (supervisor.InterruptResult, error)
	Reset(ctx context.Context) error
	Variables(ctx context.Context) (supervisor.Variables, error)
	End(ctx context.Context) error   // for good, and for everybody
	Close(ctx context.Context) error // of a Host's session: to use it no more

	OutputPath() string
	Grep(re *regexp.Regexp, max int) ([]timeline.Line, error)
	Lines(from, to int) ([]string, error)
	LineCount() int

	// Mark remembers that this client knows everything up to seq, for when it comes
	// back; 0 only asks. It returns what is remembered, or will be: answers do not wait
	// long for it. 0 is nothing.
	Mark(seq timeline.Seq) timeline.Seq

	// Author is in whose name this client's turns are recorded: others see it, and it
	// does not.
	Author() string

	// ByHand is the command with which a person can take part in the session, and
	// answer what the model may not; "" when there is none.
	ByHand() string
}

// A Turn is one that was started or fed here.
type Turn interface {
	ID() uint64
	Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error)
}

// own is a session of this server's own: it ends with the server.
type own struct {
	*supervisor.Session
	author string
}

func (o own) Submit(ctx context.Context, code string) (Turn, error) {
	turn, err := o.SubmitAs(ctx, o.author, code)
	if err != nil {
		return nil, err
	}
	return turn, nil
}

func (o own) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) (Turn, error) {
	turn := o.Current()
	if turn == nil {
		return nil, supervisor.ErrStale
	}
	if err := turn.Answer(ctx, wait, in); err != nil {
		return nil, err
	}
	return turn, nil
}

func (o own) Active(id uint64) (Turn, bool) {
	turn := o.Current()
	if turn == nil || turn.ID() != id {
		return nil, false
	}
	return turn, true
}

func (o own) End(ctx context.Context) error { return o.Close(ctx) }

func (o own) OutputPath() string { return o.Log().OutputPath() }

func (o own) Grep(re *regexp.Regexp, max int) ([]timeline.Line, error) {
	o.Log().Sync()
	return o.Log().Grep(re, max)
}

func (o own) Lines(from, to int) ([]string, error) { return o.Log().Lines(from, to) }

func (o own) LineCount() int {
	o.Log().Sync()
	return o.Log().LineCount()
}

func (o own) Mark(timeline.Seq) timeline.Seq { return 0 }

func (o own) Author() string { return o.author }

func (o own) ByHand() string { return "" }
