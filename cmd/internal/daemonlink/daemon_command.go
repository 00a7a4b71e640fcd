package daemonlink

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A DaemonCommand holds the state that all commands of a daemon share.
type DaemonCommand struct {
	Flags *flag.FlagSet
	DaemonTarget
	Link   *client.Client // set by RunWithClient
	JSON   bool
	Log    cmdflags.LogFlags // only some commands define its flags
	Logger *slog.Logger      // set by RunWithClient
}

// NewDaemonCommand adds the flags that choose a daemon, and --json. The user may be asked at the terminal.
func NewDaemonCommand(f *flag.FlagSet) *DaemonCommand {
	r := &DaemonCommand{Flags: f}
	r.DaemonTarget.AddFlags(f)
	r.IsAttended = true
	r.Flags.BoolVar(&r.JSON, "json", false, "print JSON, for programs")
	return r
}

// ParseArgs parses flags in any position and returns the arguments, one for each name. A last name in
// brackets is optional; without it the argument is "".
func (d *DaemonCommand) ParseArgs(args []string, names ...string) ([]string, error) {
	words, err := cmdkit.ParseInterspersed(d.Flags, args)
	if n := len(names); n > 0 && len(words) == n-1 && strings.HasPrefix(names[n-1], "[") {
		words = append(words, "")
	}
	switch {
	case err != nil:
		return nil, err
	case len(words) < len(names):
		if names[0] == "SESSION" {
			return nil, cmdkit.UsageErrorf("%s needs the name of a session; repl list shows them", d.Flags.Name())
		}
		return nil, cmdkit.UsageErrorf("%s needs one of %s", d.Flags.Name(), strings.ReplaceAll(names[0], "|", ", "))
	case len(words) > len(names):
		return nil, cmdkit.UsageErrorf("%s takes no argument %q", d.Flags.Name(), words[len(names)])
	}
	return words, nil
}

// RunWithClient connects to the daemon and calls do with a context that a signal cancels. It returns
// the exit status of the command, also after a signal, and closes the connection.
func (d *DaemonCommand) RunWithClient(do func(ctx context.Context, c *client.Client) (int, error)) (int, error) {
	var err error
	if d.Logger, err = d.Log.OpenLogger(nil); err != nil {
		return cmdkit.StatusUsage, err
	}
	if err := d.ResolveTarget(); err != nil {
		return cmdkit.StatusUsage, err
	}
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	dialer, err := d.Dialer(ctx)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	d.Link = client.New(dialer, nil)
	d.Link.LogTo(d.Logger)
	defer d.Link.Close()
	err = d.Link.Connect(ctx)
	if signalled, ok := cmdkit.SignalStatus(ctx); ok {
		return signalled, nil
	}
	if session.KindOf(err) == session.KindProtocol {
		err = fmt.Errorf("%w%s", err, d.SameTargetFlags()) // its last words are repl daemon drain
	}
	if err != nil {
		return cmdkit.StatusUnreachable, err
	}
	if transport, ok := dialer.(*remote.CommandDialer); ok {
		transport.StopPrompting()
	}
	work, leave := detachableContext(ctx, d.Link)
	defer leave()
	status, err := do(work, d.Link)
	if signalled, ok := cmdkit.SignalStatus(ctx); ok {
		return signalled, nil
	}
	if session.KindOf(err) == session.KindUnreachable {
		status = cmdkit.StatusUnreachable
	}
	return status, err
}

// detachableContext returns the context for a command's work in a session. It ends with ctx. After
// a hangup the connection is closed first, so that no call is cancelled and running code continues:
// sessions outlive a terminal and a login.
func detachableContext(ctx context.Context, link *client.Client) (work context.Context, stop func()) {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stopWatching := context.AfterFunc(ctx, func() {
		if status, _ := cmdkit.SignalStatus(ctx); status == 128+int(syscall.SIGHUP) {
			link.Close()
		}
		end(context.Cause(ctx))
	})
	return work, func() {
		stopWatching()
		end(nil)
	}
}

// ReplyStatus returns the exit status for a reply: an error of the code is a failure.
func ReplyStatus(reply session.Reply) int {
	switch reply.Outcome {
	case timeline.OutcomeError, timeline.OutcomeEnded:
		return cmdkit.StatusFailed
	case timeline.OutcomeInterrupted:
		return 130
	case "": // no outcome yet
		if reply.InputRequest != nil {
			return cmdkit.StatusWaiting
		}
		return cmdkit.StatusRunning
	}
	return cmdkit.StatusDone
}

var nonNameChars = text.Pattern(`[^A-Za-z0-9._-]+`)

// SessionNamePart returns a text as a part of a session's name, or "" if none of it can be one.
func SessionNamePart(text string) string {
	return strings.Trim(nonNameChars().ReplaceAllString(text, "-"), "-.")
}

// WarmPoolText describes the sessions that a daemon keeps ready.
func WarmPoolText(w protocol.WarmPool) string {
	text := fmt.Sprintf("%d of %d %s in %s", w.Ready, w.Count, w.Language, cmdkit.PlainLine(w.Dir))
	if w.Failure != "" {
		text += "; creating more failed: " + cmdkit.PlainLine(w.Failure)
	}
	return text
}
