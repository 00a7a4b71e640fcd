package sessions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A crashedSession is a session whose daemon or server was killed, on this machine or at a remote.
type crashedSession struct {
	protocol.CrashedSession

	unreadable int // the format of its files, if only another version can read it

	// readEvents calls read with the recorded events, which exist until read returns.
	readEvents func(read func(iter.Seq[timeline.Event]) error) error
}

// recoverFlags holds the flags of repl recover.
type recoverFlags struct{ format, path string }

// NewRecoverCommand returns the command that lists crashed sessions, or writes the inputs or the
// transcript of one.
func NewRecoverCommand(f *flag.FlagSet) cmdkit.Action {
	r := &daemonlink.DaemonCommand{Flags: f}
	r.DaemonTarget.AddFlags(f)
	r.IsAttended, r.StartsDaemon = true, true // the daemon was killed
	var o recoverFlags
	f.StringVar(&o.format, "format", "script", "`script|notebook|text` the format")
	f.StringVar(&o.path, "output", "", cmdkit.OutputUsage)
	f.StringVar(&o.path, "o", "", "`FILE` same as --output")
	dir := f.String("session-dir", "", "`DIR` the --session-dir of the killed daemon or server")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err == nil {
			err = r.ResolveTarget()
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		asks := r.IsRemote() || r.Socket != ""
		switch {
		case len(words) > 1:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("repl recover takes at most one argument, not %q", words[1])
		case !slices.Contains([]string{"script", "notebook", "text"}, o.format):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--format %s: use script, notebook or text", o.format)
		case asks && *dir != "":
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--session-dir is for files of this machine; a daemon reached with --via, --remote or --socket knows its own")
		case asks:
			return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
				crashed, err := remoteCrashedSessions(ctx, c)
				if err != nil {
					return cmdkit.StatusFailed, err
				}
				return o.runRecover(s, crashed, words)
			})
		}
		crashed, err := localCrashedSessions(*dir)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		return o.runRecover(s, crashed, words)
	}
}

// runRecover lists the crashed sessions, or writes the named one.
func (f recoverFlags) runRecover(s cmdkit.Streams, crashed []crashedSession, words []string) (int, error) {
	if len(words) == 0 {
		return cmdkit.StatusDone, listCrashed(s, crashed)
	}
	at := slices.IndexFunc(crashed, func(l crashedSession) bool { return l.Name == words[0] || l.ID == words[0] })
	if at < 0 {
		return cmdkit.StatusFailed, fmt.Errorf("no session %q crashed in the last day; repl recover lists the crashed ones", words[0])
	}
	if n := crashed[at].unreadable; n != 0 {
		return cmdkit.StatusFailed, fmt.Errorf("the session %q was left by another version of repl, in the format %d, which this version cannot read; run repl recover of that version within a day of the crash", words[0], n)
	}
	write := func(w io.Writer) error {
		w, flush := cmdkit.BufferedWriter(w)
		return errors.Join(writeCrashed(w, crashed[at], f.format), flush())
	}
	if f.path == "" {
		return cmdkit.StatusDone, write(s.Out)
	}
	return cmdkit.StatusDone, cmdkit.WriteOutputFile(f.path, write)
}

// localCrashedSessions finds the crashed sessions of this machine. It needs no daemon.
func localCrashedSessions(dir string) (found []crashedSession, err error) {
	all, err := supervisor.CrashedSessions(dir)
	for _, l := range all {
		unreadable := 0
		if l.Unreadable {
			unreadable = l.Format
		}
		found = append(found, crashedSession{
			protocol.CrashedSession{ID: l.ID, Name: l.Name, Language: l.Worker, Found: l.Found, Inputs: l.Inputs(), OutputPath: l.OutputPath},
			unreadable,
			func(read func(iter.Seq[timeline.Event]) error) error { return read(l.Events()) },
		})
	}
	return found, err
}

// remoteCrashedSessions asks a daemon for the crashed sessions of its machine. Their events arrive
// as a file.
func remoteCrashedSessions(ctx context.Context, c *client.Client) (found []crashedSession, err error) {
	all, err := c.ListCrashed(ctx)
	for _, l := range all {
		found = append(found, crashedSession{l, 0, func(read func(iter.Seq[timeline.Event]) error) error {
			dir, err := os.MkdirTemp("", "recover-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			err = cmdkit.WriteOutputFile(filepath.Join(dir, timeline.EventsName), func(w io.Writer) error {
				return session.CopyFile(w, func(offset int64) (session.FilePart, error) {
					return c.ReadFile(ctx, protocol.FileParams{FilesParams: protocol.FilesParams{Crashed: l.ID, Path: session.OwnFiles + timeline.EventsName}, Offset: offset})
				})
			})
			if err != nil {
				return err
			}
			return read(timeline.ReadFile(dir))
		}})
	}
	return found, err
}

func listCrashed(s cmdkit.Streams, crashed []crashedSession) error {
	if len(crashed) == 0 {
		fmt.Fprintln(s.Err, "no session crashed in the last day")
		return nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tLANGUAGE\tFOUND\tINPUTS\tID\tOUTPUT")
	for _, l := range crashed {
		inputs := strconv.Itoa(l.Inputs)
		if l.unreadable != 0 {
			inputs = "in another format"
		}
		fmt.Fprintf(w, "%s\t%s\t%s ago\t%s\t%s\t%s\n", l.Name, l.Language, time.Since(l.Found).Round(time.Second), inputs, l.ID, l.OutputPath)
	}
	return w.Flush()
}

// writeCrashed writes a session as repl export does.
func writeCrashed(w io.Writer, l crashedSession, format string) error {
	from := export.SessionFacts{Name: l.Name, Language: languages.OfSession(l.Language).Export}
	extension := map[string]string{"script": from.Language.Extension, "notebook": export.Notebook, "text": export.Transcript}[format]
	return l.readEvents(func(events iter.Seq[timeline.Event]) error { return export.Write(w, extension, from, events) })
}
