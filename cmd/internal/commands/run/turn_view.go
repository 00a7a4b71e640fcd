package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/securefile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// quickTurnTimeout is how long the first call waits for the turn if all of its output is shown.
// After that, the events of the turn are followed.
const quickTurnTimeout = 250 * time.Millisecond

// A turnView shows the output and the outcome of a turn that a command has started or continues.
type turnView struct {
	cmd        *daemonlink.DaemonCommand
	streams    cmdkit.Streams
	client     *client.Client
	showAll    bool      // all output is shown as it arrives; otherwise a reply may leave out the middle
	deadline   time.Time // until when the command waits
	started    bool      // an event of the turn has arrived
	notRun     bool      // the turn is over and never started
	transcript timeline.Transcript
	imageCount int           // number of images so far
	lastReply  session.Reply // the state that was last fetched
}

// newTurnView returns a view for a command that waits for a while. A terminal shows the beginning
// and the end of long output; a file or a program gets all of it.
func newTurnView(d *daemonlink.DaemonCommand, s cmdkit.Streams, c *client.Client, wait time.Duration) *turnView {
	return &turnView{cmd: d, streams: s, client: c, deadline: time.Now().Add(wait), showAll: !d.JSON && !cmdkit.IsTerminal(s.Out)}
}

// firstWaitMS returns how long the call that starts the turn waits.
func (v *turnView) firstWaitMS() int64 {
	wait := max(time.Until(v.deadline), 0)
	if v.showAll {
		wait = min(wait, quickTurnTimeout)
	}
	return wait.Milliseconds()
}

// showTurn shows the turn. reply is the answer to the call that started it, and after is the cursor
// before its first event; 0 means before the events of the reply.
func (v *turnView) showTurn(ctx context.Context, reply session.Reply, after timeline.Seq) (int, error) {
	v.lastReply = reply
	switch {
	case v.cmd.JSON:
		return daemonlink.ReplyStatus(reply), cmdkit.PrintJSON(v.streams.Out, reply)
	case !v.showAll:
		return v.showSummary(ctx, reply)
	}
	if after == 0 && len(reply.Events) > 0 {
		after = reply.Events[0].Seq - 1
	}
	err := v.showAllEvents(ctx, after)
	if err == nil {
		_, err = v.streams.Out.Write(v.transcript.Flush())
	}
	if err != nil {
		return v.handleFailure(ctx, err)
	}
	v.reportState(v.lastReply)
	return daemonlink.ReplyStatus(v.lastReply), nil
}

// handleFailure ends the view after an error. If the command was cancelled, it interrupts the turn.
// If only the reader of the output is gone, the turn continues.
func (v *turnView) handleFailure(ctx context.Context, err error) (int, error) {
	turn := v.lastReply
	switch {
	case ctx.Err() != nil:
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupCallTimeout)
		defer stop()
		_, _ = v.client.InterruptTurn(bounded, protocol.InterruptParams{Session: turn.Session, Turn: turn.Turn, Author: cmdkit.CommandAuthor(v.cmd.Flags.Name())})
	case errors.Is(err, syscall.EPIPE):
		if turn.Outcome == "" {
			fmt.Fprintf(v.streams.Err, "repl: the reader of the output is gone; turn %d goes on in %s\n", turn.Turn, turn.Session)
		}
		return 128 + int(syscall.SIGPIPE), nil
	}
	return cmdkit.StatusFailed, err
}

// cleanupCallTimeout bounds the last call of a command.
const cleanupCallTimeout = 5 * time.Second

// showAllEvents shows all events of the turn after a cursor, until the turn ends or requests input,
// or the wait is over.
func (v *turnView) showAllEvents(ctx context.Context, after timeline.Seq) error {
	if v.isComplete(v.lastReply) {
		return v.showReply()
	}
	limited, stop := context.WithDeadline(ctx, v.deadline)
	defer stop()
	w, err := v.client.Subscribe(limited, protocol.SubscribeParams{Session: v.lastReply.Session, After: after, Author: cmdkit.CommandAuthor(v.cmd.Flags.Name())})
	if err != nil {
		return v.handleTimeout(ctx, limited, err)
	}
	defer func() {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupCallTimeout)
		defer stop()
		_ = w.Cancel(bounded)
	}()
	died := false
	for {
		e, err := w.Next(limited)
		if err != nil {
			return v.handleTimeout(ctx, limited, err)
		}
		if neverRan, err := v.showIfNeverRan(ctx, e); neverRan || err != nil {
			return err
		}
		if err := v.writeEvent(e); err != nil {
			return err
		}
		switch b := e.Body.(type) {
		case timeline.TurnEnded:
			if e.Turn != v.lastReply.Turn {
				continue
			}
			v.lastReply.Outcome = b.Outcome
			if died = b.Outcome == timeline.OutcomeEnded; !died { // if the runtime has ended, the end of the worker comes next
				return nil
			}
		case timeline.WorkerExited:
			if died {
				return nil
			}
		case timeline.InputRequested:
			if err := v.fetchReply(ctx, e.Seq); err != nil || v.lastReply.InputRequest != nil {
				return err
			}
		}
	}
}

// showIfNeverRan shows a turn that ended before it started, and reports whether this is one. Its
// worker did not start, or it was interrupted while queued. Such a turn has no event of its own; e
// is an event that may indicate it.
func (v *turnView) showIfNeverRan(ctx context.Context, e timeline.Event) (bool, error) {
	switch e.Body.(type) {
	case timeline.WorkerExited, timeline.Notice:
	default:
		return false, nil
	}
	if v.lastReply.Outcome != "" || e.Turn == v.lastReply.Turn && !e.BetweenTurns || e.Generation < v.lastReply.Generation {
		return false, nil
	}
	if err := v.fetchReply(ctx, 0); err != nil || !v.isNotRun() {
		v.lastReply.Outcome = ""
		return false, err
	}
	return true, v.showReply()
}

// isNotRun reports whether the turn is over and never started.
func (v *turnView) isNotRun() bool {
	ofTurn := func(e timeline.Event) bool { return e.Turn == v.lastReply.Turn && !e.BetweenTurns }
	return v.lastReply.Outcome != "" && v.isComplete(v.lastReply) && !slices.ContainsFunc(v.lastReply.Events, ofTurn)
}

// showReply shows a reply that is complete. For a turn that did not run, it holds the output of the
// worker's start.
func (v *turnView) showReply() error {
	v.notRun = v.isNotRun()
	for _, e := range v.lastReply.Events {
		if err := v.writeEvent(e); err != nil {
			return err
		}
	}
	return nil
}

// isComplete reports whether the events of a reply are all that the turn will have.
func (v *turnView) isComplete(reply session.Reply) bool {
	if reply.Outcome == "" && reply.InputRequest == nil {
		return false
	}
	for _, e := range reply.Events {
		switch e.Body.(type) {
		case timeline.Omitted, timeline.Gap:
			return false
		}
	}
	return true
}

// handleTimeout fetches the current state if the wait has timed out. It returns any other error.
func (v *turnView) handleTimeout(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	return v.fetchReply(ctx, v.lastReply.Next)
}

// fetchReply fetches the current state of the turn.
func (v *turnView) fetchReply(ctx context.Context, after timeline.Seq) error {
	bounded, stop := context.WithTimeout(ctx, cleanupCallTimeout) // a remote daemon may be gone
	defer stop()
	reply, err := v.client.WaitTurn(bounded, protocol.WaitParams{Session: v.lastReply.Session, Turn: v.lastReply.Turn, After: after})
	if err == nil {
		v.lastReply = reply
	}
	return err
}

// writeEvent prints an event.
func (v *turnView) writeEvent(e timeline.Event) error {
	if !v.started && v.reportEarlier(e, v.lastReply) {
		return nil
	}
	if !v.notRun && (e.BetweenTurns || e.Turn != v.lastReply.Turn) {
		switch e.Body.(type) {
		case timeline.Gap, timeline.WorkerExited:
		default:
			return nil
		}
	}
	v.started = true
	switch b := e.Body.(type) {
	case timeline.TurnEnded: // prints nothing, because the last line of output may lack its newline
		return nil
	case timeline.Display:
		if mime, data, ok := b.ImageData(); ok {
			v.saveImage(mime, data)
			return nil
		}
	case timeline.Gap:
		fmt.Fprintf(v.streams.Err, "repl: %s of the output are missing; the session has dropped them\n", text.Bytes(b.Bytes))
		return nil
	}
	_, err := v.streams.Out.Write(v.transcript.Add(e))
	return err
}

// showSummary prints the beginning and the end of the output, and where all of it is.
func (v *turnView) showSummary(ctx context.Context, reply session.Reply) (int, error) {
	rendered := render.Events(v.turnEvents(reply), &render.Options{Self: cmdkit.CommandAuthor(v.cmd.Flags.Name())})
	midline := false
	for _, p := range rendered.Parts {
		if p.Image != nil {
			v.saveImage(p.Image.MIME, p.Image.Data)
			continue
		}
		midline = !strings.HasSuffix(p.Text, "\n")
		if _, err := io.WriteString(v.streams.Out, p.Text); err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	if midline && reply.Outcome == "" && cmdkit.IsTerminal(v.streams.Err) {
		fmt.Fprintln(v.streams.Err) // our own message is not part of the prompt
	}
	if rendered.Omitted || !v.isComplete(reply) && reply.Outcome != "" {
		fmt.Fprintf(v.streams.Err, "repl: the output was shortened; all of it is in %s\n", v.outputLocation(ctx, reply.Session))
	}
	v.reportState(reply)
	return daemonlink.ReplyStatus(reply), nil
}

// saveImage saves an image of the turn to a file and prints its path.
func (v *turnView) saveImage(mime string, data []byte) {
	v.imageCount++
	path, err := v.imageFile(mime)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		fmt.Fprintf(v.streams.Err, "repl: an image of %d bytes (%s) could not be saved: %v\n", len(data), mime, err)
		return
	}
	fmt.Fprintf(v.streams.Err, "repl: image: %s, kept for a day\n", path)
}

// imageFile returns the path for the latest image, in an existing directory.
func (v *turnView) imageFile(mime string) (string, error) {
	dir := daemonlink.SessionImageDir(v.cmd.Link.RemoteName(), v.lastReply.Session)
	if dir == "" {
		return "", errors.New("no directory is available for images")
	}
	return filepath.Join(dir, fmt.Sprintf("turn-%d-%d.%s", v.lastReply.Turn, v.imageCount, console.ImageExtension(mime))), securefile.MakeDir(dir)
}

// outputLocation returns where a session keeps its output, or how to get it from a remote.
func (v *turnView) outputLocation(ctx context.Context, name string) string {
	now, err := v.client.GetSession(ctx, name)
	if err != nil || now.OutputPath == "" || v.cmd.IsRemote() {
		return "output.txt: repl files " + name + " output.txt" + v.cmd.SameTargetFlags()
	}
	return filepath.Clean(now.OutputPath)
}

// reportState reports the state of the turn on standard error.
func (v *turnView) reportState(reply session.Reply) {
	if reply.UnreadKeys > 0 && reply.Outcome == "" {
		fmt.Fprintf(v.streams.Err, "repl: no program has read %s of the keys so far\n", text.Count(reply.UnreadKeys, "byte"))
	}
	switch {
	case reply.InputRequest != nil && reply.InputRequest.Permission != nil:
		p := reply.InputRequest.Permission
		fmt.Fprintf(v.streams.Err, "repl: waiting for a permission: %s (allow it with %s, or refuse it with %s --deny)\n", p.AccessDenied, cmdflags.GrantCommand(reply.Session, p.Grant)+v.cmd.SameTargetFlags(), "repl grant "+reply.Session+v.cmd.SameTargetFlags())
	case reply.InputRequest != nil && reply.InputRequest.Form != nil:
		fmt.Fprintf(v.streams.Err, "repl: waiting for the user: %s (answer with repl attach %s)\n", reply.InputRequest.Form.Question(), reply.Session)
	case reply.InputRequest != nil && reply.InputRequest.Raw:
		fmt.Fprintf(v.streams.Err, "repl: %s waits for keys (repl screen %s shows it; answer with repl type %s, or repl input %s)\n", cmp.Or(cmdkit.PlainLine(reply.InputRequest.Reader), "a program"), reply.Session, reply.Session, reply.Session)
	case reply.InputRequest != nil:
		fmt.Fprintf(v.streams.Err, "repl: waiting for input: %q (answer with repl input %s)\n", reply.InputRequest.Prompt, reply.Session)
	case reply.Outcome == "" && reply.Listener != nil:
		fmt.Fprintf(v.streams.Err, "repl: still running; %s listens for keys (repl screen %s shows it; repl type %s types, repl interrupt %s stops it)\n", cmdkit.PlainLine(reply.Listener.Program), reply.Session, reply.Session, reply.Session)
	case reply.Outcome == "":
		fmt.Fprintf(v.streams.Err, "repl: still running; repl events %s --follow shows further output, repl interrupt %s stops it\n", reply.Session, reply.Session)
	}
}

// turnEvents returns the events of a reply, without those before its turn: they are not output of
// the code.
func (v *turnView) turnEvents(reply session.Reply) []timeline.Event {
	events := reply.Events
	for len(events) > 0 && v.reportEarlier(events[0], reply) {
		events = events[1:]
	}
	return events
}

// reportEarlier reports events before the turn that matter to the caller: why the variables of
// earlier turns are gone, and notices of a worker's start. Notices of a new session were shown when
// it was created. It returns false for other events.
func (v *turnView) reportEarlier(e timeline.Event, reply session.Reply) bool {
	if !e.BetweenTurns && e.Turn == reply.Turn {
		return false
	}
	switch b := e.Body.(type) {
	case timeline.WorkerExited:
		if e.Generation >= reply.Generation {
			return false
		}
		fmt.Fprintf(v.streams.Err, "repl: %s was restarted, and its variables are gone: %s\n", reply.Session, cmdkit.PlainLine(b.FullReason()))
	case timeline.Notice:
		if reply.Generation > 1 {
			fmt.Fprintf(v.streams.Err, "repl: %s\n", b.Message)
		}
	case timeline.WorkerStarted:
	default:
		return false
	}
	return true
}
