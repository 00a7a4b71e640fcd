package sessions

import (
	"context"
	"flag"
	"fmt"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
)

// NewScreenCommand returns the command that prints what the programs of the running turn show on the
// terminal of a session.
func NewScreenCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			screen, err := c.ReadScreen(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if r.JSON {
				return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, screen)
			}
			for _, line := range screen.Lines {
				if _, err := fmt.Fprintln(s.Out, cmdkit.PlainText(line)); err != nil {
					return cmdkit.StatusFailed, err
				}
			}
			by := ""
			if screen.Program != "" {
				by = "; " + cmdkit.PlainLine(screen.Program) + " reads the keys"
			}
			fmt.Fprintf(s.Err, "repl: %s%s\n", cmdkit.PlainLine(screen.Describe()), by)
			return cmdkit.StatusDone, nil
		})
	}
}
