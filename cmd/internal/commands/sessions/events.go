package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// NewEventsCommand returns the command that prints a session's events as JSON lines, or its text.
func NewEventsCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	after := r.Flags.Uint64("after", 0, "`N` only events after this number")
	live := r.Flags.Bool("follow", false, "also print new events, until Ctrl-C")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			show := newEventPrinter()
			if r.JSON {
				show = func(w io.Writer, e timeline.Event) error { return json.NewEncoder(w).Encode(e) }
			}
			return followEvents(ctx, r, s, c, words[0], timeline.Seq(*after), *live, show)
		})
	}
}

// An eventPrinter prints an event of a session to a writer.
type eventPrinter = func(w io.Writer, e timeline.Event) error

// newEventPrinter returns a printer of the visible part of events. Its output is safe for a terminal.
func newEventPrinter() eventPrinter {
	var c cmdkit.TerminalSanitizer
	return func(w io.Writer, e timeline.Event) error {
		if e.IsUnseen() {
			return nil
		}
		return printEvent(w, sanitizeEvent(&c, e))
	}
}

// printEvent prints text unchanged, and any other event as a line.
func printEvent(w io.Writer, e timeline.Event) error {
	var err error
	switch b := e.Body.(type) {
	case timeline.Text:
		_, err = w.Write(b.Data)
	case timeline.TurnStarted:
		by := ""
		if b.Author != "" {
			by = " by " + b.Author
		}
		_, err = fmt.Fprintf(w, "[turn %d%s]\n%s\n", e.Turn, by, strings.TrimRight(string(b.Input), "\n"))
	case timeline.InputLine:
		if b.Keys {
			_, err = fmt.Fprintf(w, "[%s]\n", b.NoticeText())
			break
		}
		text := b.Text
		if b.Secret {
			text = "(a secret)"
		}
		_, err = fmt.Fprintf(w, "%s%s\n", b.Prompt, text)
	case timeline.TurnEnded:
		if b.Outcome != timeline.OutcomeOK {
			_, err = fmt.Fprintf(w, "[turn %d: %s]\n", e.Turn, b.Outcome)
		}
	case timeline.Display:
		if _, data, ok := b.ImageData(); ok {
			_, err = fmt.Fprintf(w, "[image, %d bytes]\n", len(data))
		} else if text := b.Text(); text != "" {
			_, err = fmt.Fprintln(w, text)
		}
	case timeline.Notice:
		_, err = fmt.Fprintf(w, "[%s]\n", b.Message)
	case timeline.Limit:
		_, err = fmt.Fprintf(w, "[%s]\n", b)
	case timeline.AccessDenied:
		_, err = fmt.Fprintf(w, "[%s: %s]\n", b.RefusedBy(), b)
	case timeline.AccessGranted:
		_, err = fmt.Fprintf(w, "[allowed: %s]\n", b)
	case timeline.InputRequested:
		if b.Kind == timeline.InputKindPermission {
			_, err = fmt.Fprintf(w, "[waiting for a permission: %s]\n", b.Denied)
		} else if b.Kind == timeline.InputKindForm {
			_, err = fmt.Fprintf(w, "[waiting for the user: %q]\n", b.Prompt)
		} else {
			_, err = fmt.Fprintf(w, "[waiting for input: %q]\n", b.Prompt)
		}
	case timeline.Gap:
		_, err = fmt.Fprintf(w, "[%d bytes of output are missing]\n", b.Bytes)
	case timeline.WorkerExited:
		_, err = fmt.Fprintf(w, "[session ended: %s]\n", b.Reason)
	}
	return err
}

// followEvents prints a session's events after a cursor: past ones, and with live also new ones.
func followEvents(ctx context.Context, d *daemonlink.DaemonCommand, s cmdkit.Streams, c *client.Client, name string, after timeline.Seq, live bool, show eventPrinter) (int, error) {
	if live && cmdkit.IsTerminal(s.Out) {
		now, err := c.GetSession(ctx, name)
		if err == nil {
			err = refuseOwnTerminal(d, now)
		}
		if err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if out, ok := s.Out.(*os.File); ok && live {
		cmdkit.OnReaderGone(out, cancel) // the next event may take long
	}
	w, err := c.Subscribe(ctx, protocol.SubscribeParams{Session: name, After: after, Author: cmdkit.CurrentAuthor()})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	for last := after; live || last < w.Seq; {
		e, err := w.Next(ctx)
		if errors.Is(err, session.ErrClosed) || ctx.Err() != nil {
			return cmdkit.StatusDone, nil
		}
		if err == nil {
			last = e.Seq
			err = show(s.Out, e)
		}
		if err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	return cmdkit.StatusDone, nil
}
