package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Local keeps the sessions of one client in a supervisor of this process. They belong to the
// client, and end with the server.
type Local struct {
	Supervisor *supervisor.Supervisor
	Specs      map[string]func(dir string) workers.Spec // by language
	Author     string                                   // of the client's turns
	NamePrefix string                                   // of the sessions' names in the supervisor
	Prepares   bool                                     // every spec prepares packages

	// MakeRoom closes one session of the client whose state is already lost. It returns false if
	// there is none.
	MakeRoom func() bool
}

// Remotes implements Backend: the client knows all of its sessions.
func (b *Local) Remotes() []string { return nil }

// Sessions implements Backend. It is never needed, because there are no remotes.
func (b *Local) Sessions(context.Context, string) ([]session.Info, error) { return nil, nil }

// Open implements Backend. It always creates the session.
func (b *Local) Open(ctx context.Context, name, lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy, report func(line string)) (*SessionHandle, error) {
	spec := b.Specs[lang](dir)
	spec.Sandbox = narrow(spec.Sandbox)
	opened, err := b.Supervisor.Open(ctx, b.NamePrefix+name, spec)
	if errors.Is(err, session.ErrLimit) && b.MakeRoom() {
		opened, err = b.Supervisor.Open(ctx, b.NamePrefix+name, spec)
	}
	if err != nil {
		return nil, withCallerName(name, err)
	}
	if err := b.waitPrepared(ctx, name, opened, report); err != nil {
		_ = opened.Close(context.Background())
		return nil, err
	}
	return &SessionHandle{
		Session: opened.As(b.Author), OutputPath: opened.Log().OutputPath, Leave: opened.Close,
		InitialInfo: session.Info{Notice: spec.Notice}, IsNew: true, Sandbox: spec.Sandbox,
	}, nil
}

// waitPrepared waits while a session is being prepared.
func (b *Local) waitPrepared(ctx context.Context, name string, opened *supervisor.Session, report func(line string)) error {
	now, _ := opened.Info(ctx) // cannot fail in this process
	_ = session.FollowPreparation(ctx, opened, now, func(p timeline.Preparation) { report(p.Text()) })
	err := opened.WaitPrepared(ctx)
	if err != nil && ctx.Err() == nil && b.Prepares {
		return &PrepareError{err}
	}
	return withCallerName(name, err)
}

// withCallerName rewords the error of a failed opening with the session's name as the caller
// knows it.
func withCallerName(name string, err error) error {
	reported, ok := errors.AsType[*session.Error](err)
	switch {
	case ok && (reported.Kind == session.KindStart || reported.Kind == session.KindSpec) && reported.Cause != nil:
		return &session.Error{Kind: reported.Kind, Message: fmt.Sprintf("session %q did not start: %v", name, reported.Cause), Cause: reported.Cause}
	case ok && reported.Kind == session.KindName:
		return &session.Error{Kind: reported.Kind, Message: fmt.Sprintf("%q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", name)}
	}
	return err
}
