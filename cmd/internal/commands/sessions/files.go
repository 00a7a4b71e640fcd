package sessions

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// NewFilesCommand returns the command that lists the files that a session keeps, or writes one. Files
// of a remote session arrive over the daemon's own connection.
func NewFilesCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	path := r.Flags.String("output", "", cmdkit.OutputUsage)
	r.Flags.StringVar(path, "o", "", "`FILE` same as --output")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(r.Flags, args)
		switch {
		case err != nil:
			return cmdkit.StatusUsage, err
		case len(words) == 0 || len(words) > 2:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("files needs the name of a session, and optionally of a file; repl list shows the sessions")
		case len(words) == 1 && *path != "":
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--output needs the name of a file after the session; repl files %s lists the files", words[0])
		case len(words) == 2 && r.JSON:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--json is for the list of files")
		case len(words) == 2 && *path == "" && !strings.HasSuffix(words[1], timeline.OutputName) && cmdkit.IsTerminal(s.Out):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("%s may not be text; write it to a file with -o FILE", words[1])
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			opened := c.Session(words[0])
			if len(words) == 1 {
				return listFiles(ctx, r, s, opened)
			}
			write := func(w io.Writer) error {
				return session.CopyFile(w, func(offset int64) (session.FilePart, error) {
					return opened.File(ctx, session.OwnFiles+words[1], offset, 0)
				})
			}
			if *path == "" {
				return cmdkit.StatusDone, write(s.Out)
			}
			return cmdkit.StatusDone, cmdkit.WriteOutputFile(*path, write)
		})
	}
}

// listFiles prints the files of a session.
func listFiles(ctx context.Context, d *daemonlink.DaemonCommand, s cmdkit.Streams, there session.Session) (int, error) {
	own, err := there.Files(ctx, session.OwnFiles)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if d.JSON {
		return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, own.Files)
	}
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tSIZE\tCHANGED")
	for _, f := range own.Files {
		fmt.Fprintf(w, "%s\t%s\t%s\n", cmdkit.PlainLine(f.Name), text.Bytes(f.Bytes), f.Modified.Local().Format(time.DateTime))
	}
	return cmdkit.StatusDone, w.Flush()
}
