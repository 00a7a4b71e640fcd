package sessions

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// NewInterruptCommand returns the command that interrupts the running turn of a session.
func NewInterruptCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	turn := r.Flags.Uint64("turn", 0, "`N` only if this turn is running")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			result, err := c.Session(words[0]).As(cmdkit.CurrentAuthor()).Interrupt(ctx, *turn)
			switch {
			case err != nil:
				return cmdkit.StatusFailed, err
			case result == session.InterruptNotRunning && *turn == 0:
				fmt.Fprintf(s.Err, "repl: nothing is running in %s\n", words[0])
			case result == session.InterruptPending:
				return cmdkit.StatusFailed, errors.New("still running; interrupt again to force it, or use repl reset")
			}
			return cmdkit.StatusDone, nil
		})
	}
}

// NewResetCommand returns the command that restarts a session's runtime.
func NewResetCommand(f *flag.FlagSet) cmdkit.Action {
	return newSessionCommand(f, func(ctx context.Context, c *client.Client, name string) error {
		_, err := c.ResetSession(ctx, name)
		return err
	})
}

// NewCloseCommand returns the command that ends a session.
func NewCloseCommand(f *flag.FlagSet) cmdkit.Action {
	return newSessionCommand(f, func(ctx context.Context, c *client.Client, name string) error {
		return c.CloseSession(ctx, name)
	})
}

func newSessionCommand(f *flag.FlagSet, do func(context.Context, *client.Client, string) error) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	return func(_ cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			if err := do(ctx, c, words[0]); err != nil {
				return cmdkit.StatusFailed, err
			}
			return cmdkit.StatusDone, nil
		})
	}
}
