package run

import (
	"context"
	"log/slog"
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// localSessionOptions holds the options of a session in this program, besides its spec.
type localSessionOptions struct {
	log       *slog.Logger
	functions []supervisor.Function // of --mcp-servers
}

// withSession calls use with a new session once it is prepared, and with a context that signals to
// terminate cancel. After such a signal it returns the matching status.
func withSession(s cmdkit.Streams, spec workers.Spec, more localSessionOptions, use func(context.Context, *supervisor.Session) (int, error)) (int, error) {
	ctx, stop := cmdkit.CatchSignals()
	defer stop()
	// Only the user sees the output, and a program's output must not be changed.
	sup, err := supervisor.New(&supervisor.Options{ShowSecrets: true, Logger: more.log, Functions: more.functions, Memory: (&cmdflags.LimitFlags{Limits: spec.Limits}).TotalMemory(), Grants: cmdflags.UserConfigFile(), GrantHint: cmdflags.LaterGrantHint})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer sup.Close()
	session, err := sup.Open(ctx, "main", spec)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if status, err := prepareSession(s, session); err != nil || status != cmdkit.StatusDone {
		return status, err
	}
	status, err := use(ctx, session)
	if signalled, ok := cmdkit.SignalStatus(ctx); ok {
		status = signalled
	}
	return status, err
}

// prepareSession waits while a session is being prepared. Ctrl-C cancels it.
func prepareSession(s cmdkit.Streams, session *supervisor.Session) (int, error) {
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	now, err := session.Info(ctx)
	if err == nil {
		err = cmdflags.AwaitPrepared(ctx, s.Err, session, now)
	}
	if status, signalled := cmdkit.SignalStatus(ctx); signalled {
		return status, nil
	}
	if err == nil {
		err = session.WaitPrepared(ctx)
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	return cmdkit.StatusDone, nil
}
