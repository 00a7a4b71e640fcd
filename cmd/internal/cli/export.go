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
	"github.com/turnstone-repl/turnstone/session"
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
			now, err := c.Get(ctx, given[0])
			if err != nil {
				return statusFailed, err
			}
			write := func(w io.Writer) error { return writeSession(ctx, c, w, now, *format) }
			if *path == "" {
				return statusDone, write(s.out)
			}
			return statusDone, writeNew(*path, write)
		})
	}

}

// writeSession writes a session of the daemon in a format; "" is the first of its language.
func writeSession(ctx context.Context, c *client.Client, w io.Writer, now session.Info, format string) error {
	l := languageOf(now.Language)
	if format == "" {
		format = l.export.Formats()[0]
	}
	w, flush := buffered(w)
	var lost error
	err := export.Write(w, format, export.Session{Name: now.Name, Runtime: now.Runtime, Language: l.export}, past(ctx, c, now.Name, &lost))
	return errors.Join(err, lost, flush())
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
