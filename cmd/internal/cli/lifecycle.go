package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// interruptIn interrupts what a session runs now.
func interruptIn(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	turn := r.flags.Uint64("turn", 0, "`N` only if this turn is the one that runs")
	return func(s streams, args []string) (int, error) {
		given, err := r.parse(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			result, err := c.Session(given[0]).As(author()).Interrupt(ctx, *turn)
			switch {
			case err != nil:
				return statusFailed, err
			case result == session.InterruptNotRunning && *turn == 0:
				fmt.Fprintf(s.err, "repl: nothing runs in %s\n", given[0])
			case result == session.InterruptPending:
				return statusFailed, errors.New("still running: interrupt again to force it; repl reset always works")
			}
			return statusDone, nil
		})
	}

}

// resetIn restarts a session's runtime.
func resetIn(f *flag.FlagSet) action {
	return onSession(f, func(ctx context.Context, c *client.Client, name string) error {
		_, err := c.ResetSession(ctx, name)
		return err
	})
}

// closeIn ends a session.
func closeIn(f *flag.FlagSet) action {
	return onSession(f, func(ctx context.Context, c *client.Client, name string) error {
		return c.CloseSession(ctx, name)
	})
}

func onSession(f *flag.FlagSet, do func(context.Context, *client.Client, string) error) action {
	r := newDaemonCommand(f)
	return func(_ streams, args []string) (int, error) {
		given, err := r.parse(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			if err := do(ctx, c, given[0]); err != nil {
				return statusFailed, err
			}
			return statusDone, nil
		})
	}
}
