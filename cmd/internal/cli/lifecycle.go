package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstone-repl/turnstone/client"
)

// interruptIn interrupts what a session runs now.
func interruptIn(s streams, args []string) (int, error) {
	r := newDaemonCommand("interrupt")
	turn := r.flags.Uint64("turn", 0, "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		if *turn == 0 {
			session, err := c.Get(ctx, given[0])
			if err != nil {
				return statusFailed, err
			}
			if session.State != "running" && session.State != "waiting" {
				fmt.Fprintf(s.err, "repl: nothing runs: %s is %s\n", session.Name, session.State)
				return statusDone, nil
			}
			*turn = session.Turn
		}
		result, err := c.Interrupt(ctx, client.InterruptParams{Session: given[0], Turn: *turn, Author: author()})
		if err != nil {
			return statusFailed, err
		}
		if result.Result == "pending" {
			return statusFailed, errors.New("still running: interrupt again to force it; repl reset always works")
		}
		return statusDone, nil
	})
}

// resetIn restarts a session's runtime.
func resetIn(_ streams, args []string) (int, error) {
	return onSession("reset", args, func(ctx context.Context, c *client.Client, name string) error {
		_, err := c.Reset(ctx, name)
		return err
	})
}

// closeIn ends a session.
func closeIn(_ streams, args []string) (int, error) {
	return onSession("close", args, func(ctx context.Context, c *client.Client, name string) error {
		return c.CloseSession(ctx, name)
	})
}

func onSession(command string, args []string, do func(context.Context, *client.Client, string) error) (int, error) {
	r := newDaemonCommand(command)
	given, err := r.parse(args, "NAME")
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
