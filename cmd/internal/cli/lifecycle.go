package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// newInterruptCommand interrupts the running turn of a session.
func newInterruptCommand(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	turn := r.flags.Uint64("turn", 0, "`N` only if this turn is running")
	return func(s streams, args []string) (int, error) {
		words, err := r.parseArgs(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		return r.runWithClient(func(ctx context.Context, c *client.Conn) (int, error) {
			result, err := c.Session(words[0]).As(currentAuthor()).Interrupt(ctx, *turn)
			switch {
			case err != nil:
				return statusFailed, err
			case result == session.InterruptNotRunning && *turn == 0:
				fmt.Fprintf(s.err, "repl: nothing is running in %s\n", words[0])
			case result == session.InterruptPending:
				return statusFailed, errors.New("still running; interrupt again to force it, or use repl reset")
			}
			return statusDone, nil
		})
	}
}

// newResetCommand restarts a session's runtime.
func newResetCommand(f *flag.FlagSet) action {
	return newSessionCommand(f, func(ctx context.Context, c *client.Conn, name string) error {
		_, err := c.ResetSession(ctx, name)
		return err
	})
}

// newCloseCommand ends a session.
func newCloseCommand(f *flag.FlagSet) action {
	return newSessionCommand(f, func(ctx context.Context, c *client.Conn, name string) error {
		return c.CloseSession(ctx, name)
	})
}

func newSessionCommand(f *flag.FlagSet, do func(context.Context, *client.Conn, string) error) action {
	r := newDaemonCommand(f)
	return func(_ streams, args []string) (int, error) {
		words, err := r.parseArgs(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		return r.runWithClient(func(ctx context.Context, c *client.Conn) (int, error) {
			if err := do(ctx, c, words[0]); err != nil {
				return statusFailed, err
			}
			return statusDone, nil
		})
	}
}
