package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/timeline"
)

// exportFrom writes a session as a file for another program.
func exportFrom(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	format := r.flags.String("format", "", formatWords())
	path := r.flags.String("output", "", outputWords)
	return func(s streams, args []string) (int, error) {
		given, err := r.parse(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			session, err := c.Get(ctx, given[0])
			if err != nil {
				return statusFailed, err
			}
			l := languageOf(session.Language)
			from := export.Session{Name: session.Name, Runtime: session.Runtime, Language: l.export}
			if *format == "" {
				*format = l.export.Formats()[0]
			}
			write := func(w io.Writer) error {
				w, flush := buffered(w)
				var lost error
				err := export.Write(w, *format, from, past(ctx, c, session.Name, &lost))
				return errors.Join(err, lost, flush())
			}
			if *path == "" {
				return statusDone, write(s.out)
			}
			return statusDone, writeNew(*path, write)
		})
	}

}

// past yields the events of a session so far. lost is set if it ends early.
func past(ctx context.Context, c *client.Client, session string, lost *error) iter.Seq[timeline.Event] {
	return func(yield func(timeline.Event) bool) {
		w, err := c.Subscribe(ctx, client.SubscribeParams{Session: session})
		if err != nil {
			*lost = err
			return
		}
		for last := timeline.Seq(0); last < w.Seq; {
			e, err := w.Next(ctx)
			if err != nil {
				*lost = err
				return
			}
			last = e.Seq
			if g, ok := e.Body.(timeline.Gap); ok {
				last = g.To
			}
			if !yield(e) {
				return
			}
		}
	}
}

func buffered(w io.Writer) (io.Writer, func() error) {
	b := bufio.NewWriterSize(w, 64<<10)
	return b, b.Flush
}

// writeNew writes a file completely or not at all.
func writeNew(path string, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".export-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after success, because the file was renamed
	err = write(temp)
	if e := temp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
