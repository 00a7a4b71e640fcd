package sessions

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"strconv"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// NewAttachCommand returns the command that lets a user watch a session of the daemon and type into it.
func NewAttachCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	watch := r.Flags.Bool("watch", false, "only watch; needs no terminal")
	exclusive := r.Flags.Bool("exclusive", false, "keep the write lock: no other client may write while you are attached")
	// A user may attach twice, and each terminal must show the input of the other.
	self := r.Flags.String("as", cmdkit.CommandAuthor(strconv.Itoa(os.Getpid())), "`NAME` the name that others see; default your user name and a number")
	var terminal cmdflags.TerminalFlags
	terminal.AddFlags(r.Flags)
	r.Log.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err == nil {
			err = terminal.ValidateHistory()
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if *watch && *exclusive {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("use either --watch or --exclusive, not both")
		}
		if *self == "" || !protocol.IsAuthor(*self) {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--as %q: use a name of up to %d bytes, without control or invisible characters", *self, protocol.MaxAuthorBytes)
		}
		if *watch {
			return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
				return followEvents(ctx, r, s, c, words[0], 0, true, newEventPrinter())
			})
		}
		if !console.IsUsable() {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("attach needs a terminal; --watch shows the session without one")
		}
		if err := r.Log.KeepOffTerminal(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if err := refuseOwnTerminal(r, now); err != nil {
				return cmdkit.StatusFailed, err
			}
			if err := cmdflags.AwaitPrepared(ctx, s.Err, c.Session(now.Name), now); err != nil {
				return cmdkit.StatusFailed, err
			}
			own := r.Link.Session(now.Name).WithAuthor(*self)
			if *exclusive {
				if err := own.TakeWriteLock(ctx, true); err != nil {
					return cmdkit.StatusFailed, err
				}
			}
			lang := languages.OfSession(now.Language)
			o := terminal.TerminalOptions(lang, now.Dir)
			o.Author, o.ReplayUntil, o.SessionStays = *self, now.LastSeq, true
			status, err := console.Run(ctx, newAttachedSession(ctx, r, own.WithWriteLock(), now), o)
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			fmt.Fprintf(s.Err, "[detached: %s goes on; repl close %s%s ends it]\n", now.Name, now.Name, r.SameTargetFlags())
			return status, nil
		})
	}
}

// refuseOwnTerminal refuses to show a session at its own terminal. There, each line that attach
// shows would become output of the session, and would be shown again.
func refuseOwnTerminal(d *daemonlink.DaemonCommand, now session.Info) error {
	if d.IsRemote() || !cmdkit.HasSameTerminal(now.PID) {
		return nil
	}
	return cmdkit.UsageErrorf("this terminal belongs to session %s, which cannot show itself; use another terminal", now.Name)
}

// An attachedSession adapts a session of the daemon to the terminal. It removes from the text of
// others everything that would act on the terminal.
type attachedSession struct {
	*client.Session
	outages      <-chan client.Outage // nil if the connection is local
	remoteName   string
	rewriteEvent func(timeline.Event) timeline.Event // rewrites an event for this machine; nil changes nothing

	startAt       screenful
	skippedNotice string // printed above the screen; "" if the screen shows everything
}

// newAttachedSession adapts a session for the terminal. now is its current state.
func newAttachedSession(ctx context.Context, d *daemonlink.DaemonCommand, s *client.Session, now session.Info) attachedSession {
	a := attachedSession{Session: s, outages: outagesOf(d.Link), remoteName: d.Link.RemoteName()}
	if d.IsRemote() {
		a.rewriteEvent = daemonlink.CrashNoticeRewriter(now, d.SameTargetFlags())
	}
	if a.startAt = lastScreen(ctx, s, console.WindowSize()); a.startAt.after > 0 {
		a.skippedNotice = fmt.Sprintf("earlier output is not shown; repl events %s%s prints all of it", now.Name, d.SameTargetFlags())
	}
	return a
}

func (a attachedSession) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	var c cmdkit.TerminalSanitizer
	return func(yield func(timeline.Event, error) bool) {
		if after < a.startAt.after {
			after = a.startAt.after
			if !yield(timeline.Event{Body: timeline.Notice{Message: a.skippedNotice}}, nil) {
				return
			}
		}
		events := func(ctx context.Context) iter.Seq2[timeline.Event, error] { return a.Session.Events(ctx, after) }
		for e, err := range withOutages(ctx, a.outages, a.remoteName, events) {
			e = a.startAt.trimEvent(e)
			if a.rewriteEvent != nil {
				e = a.rewriteEvent(e)
			}
			if !yield(sanitizeEvent(&c, e), err) {
				return
			}
		}
	}
}

// Info returns the state of the session, safe for a terminal.
func (a attachedSession) Info(ctx context.Context) (session.Info, error) {
	i, err := a.Session.Info(ctx)
	if i.Listener != nil {
		i.Listener = &session.Listener{Program: cmdkit.PlainLine(i.Listener.Program), Raw: i.Listener.Raw}
	}
	i.Prompt, i.Continuation, i.InputRequest = cmdkit.PlainText(i.Prompt), cmdkit.PlainText(i.Continuation), plainInputRequest(i.InputRequest)
	return i, err
}

// Screen returns the screen of the session, safe for a terminal.
func (a attachedSession) Screen(ctx context.Context) (session.Screen, error) {
	screen, err := a.Session.Screen(ctx)
	for i, line := range screen.Lines {
		screen.Lines[i] = cmdkit.PlainLine(line)
	}
	for i, h := range screen.Highlights {
		screen.Highlights[i].Text = cmdkit.PlainLine(h.Text)
	}
	return screen, err
}

// plainInputRequest returns an input request with sanitized texts.
func plainInputRequest(w *session.InputRequest) *session.InputRequest {
	if w == nil {
		return nil
	}
	plain := *w
	plain.Prompt, plain.Reader = cmdkit.PlainText(w.Prompt), cmdkit.PlainLine(w.Reader) // the text of a permission request quotes dangerous characters itself
	return &plain
}

func (a attachedSession) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	reply, err := a.Session.Wait(ctx, turn, o)
	reply.Prompt, reply.InputRequest = cmdkit.PlainText(reply.Prompt), plainInputRequest(reply.InputRequest)
	return reply, err
}
