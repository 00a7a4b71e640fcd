package sessions

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// NewClientsCommand returns the command that shows the clients of the daemon and their sessions.
func NewClientsCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(r.Flags, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if len(words) > 1 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("repl clients takes at most one argument, not %q", words[1])
		}
		session := strings.Join(words, "")
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			all, err := c.ListClients(ctx, session)
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if r.JSON {
				return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, all)
			}
			shown := 0
			w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
			for _, a := range all {
				if a.Self {
					continue
				}
				if shown++; shown == 1 {
					fmt.Fprintln(w, "CLIENT\tPROCESS\tWHO\tSINCE\tSESSIONS")
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", a.Client, a.PID, cmp.Or(cmdkit.PlainLine(a.Author), "?"), time.Since(a.Since).Round(time.Second), attachmentText(a))
			}
			if shown == 0 {
				fmt.Fprintln(s.Err, "no other client is connected")
			}
			return cmdkit.StatusDone, w.Flush()
		})
	}
}

// attachmentText describes how a client uses sessions.
func attachmentText(a protocol.ConnectedClient) string {
	var all []string
	for _, one := range a.Sessions {
		var uses []string
		if one.Watches {
			uses = append(uses, "watches")
		}
		if one.Reader != "" {
			uses = append(uses, "reads as "+cmdkit.PlainLine(one.Reader))
		}
		switch {
		case one.LongLock:
			uses = append(uses, "holds the write lock")
		case one.WriteLock:
			uses = append(uses, "has the write lock for its turn")
		}
		if one.Calls > 0 {
			uses = append(uses, "waits for the write lock")
		}
		all = append(all, one.Session+": "+strings.Join(uses, ", "))
	}
	return strings.Join(all, "; ")
}

// NewDetachCommand returns the command that ends the connection of another client.
func NewDetachCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	lockHolder := r.Flags.String("lock-holder", "", "`SESSION` the client that holds the write lock of that session, instead of CLIENT")
	return func(_ cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(r.Flags, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if len(words) != 1 && *lockHolder == "" || len(words) > 0 && *lockHolder != "" {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("repl detach needs one CLIENT from the list of repl clients, or --lock-holder SESSION for the client that holds the write lock of that session")
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			id := strings.Join(words, "")
			if *lockHolder != "" {
				all, err := c.ListClients(ctx, *lockHolder)
				if err != nil {
					return cmdkit.StatusFailed, err
				}
				for _, a := range all {
					for _, one := range a.Sessions {
						if one.WriteLock {
							id = a.Client
						}
					}
				}
				if id == "" {
					return cmdkit.StatusFailed, fmt.Errorf("no client holds the write lock of %s", *lockHolder)
				}
			}
			if err := c.DetachClient(ctx, protocol.DetachParams{Client: id, Author: cmdkit.CurrentAuthor()}); err != nil {
				return cmdkit.StatusFailed, err
			}
			return cmdkit.StatusDone, nil
		})
	}
}

// NewWaitCommand returns the command that waits until a session is idle.
func NewWaitCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	limit := r.Flags.Duration("timeout", 0, "`DURATION` give up after this time; 0 means never")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if *limit < 0 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--timeout %s: use a positive time, or 0 for no limit", *limit)
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			started, pause := time.Now(), time.Hour
			for {
				if *limit > 0 {
					pause = min(pause, max(*limit-time.Since(started), time.Millisecond))
				}
				reply, err := c.WaitTurn(ctx, protocol.WaitParams{Session: words[0], WaitMS: max(pause.Milliseconds(), 1), After: now.LastSeq})
				if err != nil {
					return cmdkit.StatusFailed, err
				}
				switch {
				case reply.InputRequest != nil:
					fmt.Fprintf(s.Err, "repl: waiting for input: %q (answer with repl input %s)\n", reply.InputRequest.Prompt, reply.Session)
					return cmdkit.StatusWaiting, nil
				case reply.State == session.StateIdle || reply.State == session.StateEnded:
					if r.JSON {
						return daemonlink.ReplyStatus(reply), cmdkit.PrintJSON(s.Out, reply)
					}
					return daemonlink.ReplyStatus(reply), nil
				case *limit > 0 && time.Since(started) >= *limit:
					fmt.Fprintf(s.Err, "repl: %s is still %s after %s\n", reply.Session, reply.State, *limit)
					return cmdkit.StatusRunning, nil
				}
			}
		})
	}
}
