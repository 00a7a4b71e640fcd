package sessions

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// NewListCommand returns the command that lists the sessions of the daemon.
func NewListCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		if _, err := r.ParseArgs(args); err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			sessions, err := c.ListSessions(ctx)
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if r.JSON {
				return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, sessions)
			}
			now, err := c.DaemonInfo(ctx)
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			for _, w := range now.WarmPools {
				fmt.Fprintln(s.Err, "warm: "+daemonlink.WarmPoolText(w))
			}
			if len(sessions) == 0 {
				fmt.Fprintln(s.Err, "no session is open")
				return cmdkit.StatusDone, nil
			}
			w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tLANGUAGE\tSTATE\tGENERATION\tTURN\tAGE\tMEMORY\tSANDBOX\tWATCHERS\tWRITE LOCK")
			for _, one := range sessions {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%d\t%s\n", one.Name, one.Language, StateText(one), one.Generation, one.Turn,
					time.Since(one.OpenedAt).Round(time.Second), formatMegabytes(one.MemoryBytes), one.Confinement(), one.Watchers, cmdkit.PlainLine(one.WriteLockHolder))
			}
			return cmdkit.StatusDone, w.Flush()
		})
	}
}

// StateText describes the state of a session for a terminal.
func StateText(s session.Info) string {
	switch {
	case s.State == session.StatePreparing:
		return "being prepared"
	case s.PreparationError != "":
		return "could not be prepared"
	case s.InputRequest != nil:
		return fmt.Sprintf("waiting: %q", s.InputRequest.Prompt)
	case s.Listener != nil:
		return fmt.Sprintf("%s %s, %s listens for keys", s.State, s.TurnElapsed.Round(time.Second), cmdkit.PlainLine(s.Listener.Program))
	case s.TurnElapsed > 0:
		return fmt.Sprintf("%s %s", s.State, s.TurnElapsed.Round(time.Second))
	}
	return s.State.String()
}

func formatMegabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
