package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const filesCommand = "repl files"

// newFilesCommand lists the files that a session keeps, or writes one. Files of a remote session
// arrive over the daemon's own connection.
func newFilesCommand(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	path := r.flags.String("output", "", outputUsage)
	r.flags.StringVar(path, "o", "", "`FILE` same as --output")
	return func(s streams, args []string) (int, error) {
		words, err := parseInterspersed(r.flags, args)
		switch {
		case err != nil:
			return statusUsage, err
		case len(words) == 0 || len(words) > 2:
			return statusUsage, usageErrorf("files needs the name of a session, and optionally of a file; repl list shows the sessions")
		case len(words) == 1 && *path != "":
			return statusUsage, usageErrorf("--output needs the name of a file after the session; repl files %s lists the files", words[0])
		case len(words) == 2 && r.json:
			return statusUsage, usageErrorf("--json is for the list of files")
		case len(words) == 2 && *path == "" && !strings.HasSuffix(words[1], timeline.OutputName) && isTerminal(s.out):
			return statusUsage, usageErrorf("%s may not be text; write it to a file with -o FILE", words[1])
		}
		return r.runWithClient(func(ctx context.Context, c *client.Conn) (int, error) {
			opened := c.Session(words[0])
			if len(words) == 1 {
				return r.listFiles(ctx, s, opened)
			}
			write := func(w io.Writer) error {
				return session.CopyFile(w, func(offset int64) (session.FilePart, error) {
					return opened.File(ctx, words[1], offset, 0)
				})
			}
			if *path == "" {
				return statusDone, write(s.out)
			}
			return statusDone, writeOutputFile(*path, write)
		})
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (d *daemonCommand) listFiles(ctx context.Context, s streams, there session.Session) (int, error) {
	files, err := there.Files(ctx)
	if err != nil {
		return statusFailed, err
	}
	if d.json {
		return statusDone, printJSON(s.out, files)
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tSIZE\tCHANGED")
	for _, f := range files {
		fmt.Fprintf(w, "%s\t%s\t%s\n", plainLine(f.Name), timeline.FormatBytes(f.Bytes), f.Modified.Local().Format(time.DateTime))
	}
	return statusDone, w.Flush()
}
