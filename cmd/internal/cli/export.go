package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"os"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newExportCommand writes a session as a file for another program.
func newExportCommand(f *flag.FlagSet) cmdkit.Action {
	r := newDaemonCommand(f)
	format := r.flags.String("format", "", formatUsage())
	path := r.flags.String("output", "", outputUsage)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.parseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.runWithClient(func(ctx context.Context, c *client.Conn) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			write := func(w io.Writer) error { return writeSession(ctx, c, w, now, *format) }
			if *path == "" {
				return cmdkit.StatusDone, write(s.Out)
			}
			return cmdkit.StatusDone, writeOutputFile(*path, write)
		})
	}
}

// writeSession writes a session of the daemon in a format. "" is the first format of its language.
func writeSession(ctx context.Context, c *client.Conn, w io.Writer, now session.Info, format string) error {
	l := sessionLanguage(now.Language)
	if format == "" {
		format = l.export.Formats()[0]
	}
	w, flush := bufferedWriter(w)
	on := c.Session(now.Name)
	from := export.SessionFacts{
		Name: now.Name, Runtime: now.RuntimeVersion, Language: l.export,
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

func bufferedWriter(w io.Writer) (io.Writer, func() error) {
	b := bufio.NewWriterSize(w, 64<<10)
	return b, b.Flush
}

// writeOutputFile writes a file completely or not at all. Our own output, such as /dev/stdout, is
// appended to. Other pipes and devices are written directly, and a link leads to its file.
func writeOutputFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if stdout, e := os.Stdout.Stat(); err == nil && e == nil && os.SameFile(info, stdout) {
		return write(os.Stdout)
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		err = write(f)
		return errors.Join(err, f.Close())
	}
	f, err := atomicfile.Create(paths.RealOrSame(path), 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}
