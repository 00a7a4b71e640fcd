package sessions

import (
	"context"
	"errors"
	"flag"
	"io"
	"iter"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// NewExportCommand returns the command that writes a session as a file for another program.
func NewExportCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	format := r.Flags.String("format", "", languages.FormatUsage())
	path := r.Flags.String("output", "", cmdkit.OutputUsage)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			write := func(w io.Writer) error { return writeSession(ctx, c, w, now, *format) }
			if *path == "" {
				return cmdkit.StatusDone, write(s.Out)
			}
			return cmdkit.StatusDone, cmdkit.WriteOutputFile(*path, write)
		})
	}
}

// writeSession writes a session of the daemon in a format. "" is the first format of its language.
func writeSession(ctx context.Context, c *client.Client, w io.Writer, now session.Info, format string) error {
	l := languages.OfSession(now.Language)
	if format == "" {
		format = l.Export.Formats()[0]
	}
	w, flush := cmdkit.BufferedWriter(w)
	on := c.Session(now.Name)
	from := export.SessionFacts{
		Name: now.Name, Runtime: now.RuntimeVersion, Language: l.Export,
		FetchBlob: func(b timeline.Blob) ([]byte, error) {
			data, err := session.ReadBlob(ctx, on, b)
			if session.KindOf(err) == session.KindNoBlob {
				return nil, nil
			}
			return data, err
		},
	}
	var readErr error
	err := export.Write(w, format, from, pastEvents(ctx, on, &readErr))
	return errors.Join(err, readErr, flush())
}

// pastEvents yields the events of a session so far, in windows. Large data of results is named but
// not included. It sets readErr if it ends early.
func pastEvents(ctx context.Context, s session.Session, readErr *error) iter.Seq[timeline.Event] {
	return func(yield func(timeline.Event) bool) {
		q := session.ReadQuery{Limit: session.MaxReadEvents}
		for {
			p, err := s.Read(ctx, q)
			if err != nil {
				*readErr = err
				return
			}
			for _, e := range p.Events {
				if !yield(e) {
					return
				}
			}
			if len(p.Events) == 0 || !p.HasLater {
				return
			}
			if q.Before == 0 {
				q.Before = p.End + 1
			}
			q.After = p.Last
		}
	}
}
