package cli

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A daemonCommand holds what all commands that talk to a daemon share.
type daemonCommand struct {
	flags *flag.FlagSet
	daemonTarget
	link   *client.Client // set by runWithClient
	json   bool
	log    cmdflags.LogFlags // only some commands define its flags
	logger *slog.Logger      // set by runWithClient
}

func newDaemonCommand(f *flag.FlagSet) *daemonCommand {
	r := &daemonCommand{flags: f}
	r.daemonTarget.addFlags(f)
	r.isAttended = true
	r.flags.BoolVar(&r.json, "json", false, "print JSON, for programs")
	return r
}

// parseArgs parses flags in any position and returns the arguments, one for each name.
func (d *daemonCommand) parseArgs(args []string, names ...string) ([]string, error) {
	words, err := cmdkit.ParseInterspersed(d.flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(words) < len(names):
		if names[0] == "SESSION" {
			return nil, cmdkit.UsageErrorf("%s needs the name of a session; repl list shows them", d.flags.Name())
		}
		return nil, cmdkit.UsageErrorf("%s needs one of %s", d.flags.Name(), strings.ReplaceAll(names[0], "|", ", "))
	case len(words) > len(names):
		return nil, cmdkit.UsageErrorf("%s takes no argument %q", d.flags.Name(), words[len(names)])
	}
	return words, nil
}

// runWithClient connects to the daemon and calls do with a context that a signal cancels.
func (d *daemonCommand) runWithClient(do func(ctx context.Context, c *client.Conn) (int, error)) (int, error) {
	var err error
	if d.logger, err = d.log.OpenLogger(nil); err != nil {
		return cmdkit.StatusUsage, err
	}
	if err := d.resolveTarget(); err != nil {
		return cmdkit.StatusUsage, err
	}
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	dialer, err := d.dialer(ctx)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	d.link = client.New(dialer, nil)
	d.link.LogTo(d.logger)
	defer d.link.Close()
	c, err := d.link.Conn(ctx)
	if signalled, ok := cmdkit.SignalStatus(ctx); ok {
		return signalled, nil
	}
	if err != nil {
		return cmdkit.StatusUnreachable, err
	}
	if transport, ok := dialer.(*remote.CommandDialer); ok {
		transport.StopPrompting()
	}
	work, leave := detachableContext(ctx, d.link)
	defer leave()
	status, err := do(work, c)
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

// replyStatus returns the exit status for a reply: an error of the code is a failure.
func replyStatus(reply session.Reply) int {
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

var nonNameChars = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// sessionNamePart returns a text as a part of a session's name, or "" if none of it can be one.
func sessionNamePart(text string) string {
	return strings.Trim(nonNameChars.ReplaceAllString(text, "-"), "-.")
}

// warmPoolText describes the sessions that a daemon keeps ready.
func warmPoolText(w client.WarmPool) string {
	text := fmt.Sprintf("%d of %d %s in %s", w.Ready, w.Count, w.Language, cmdkit.PlainLine(w.Dir))
	if w.Failure != "" {
		text += "; creating more failed: " + cmdkit.PlainLine(w.Failure)
	}
	return text
}
