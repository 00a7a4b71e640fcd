package cli

import (
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

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/private"
	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// quickTurn is how long a turn whose whole output is wanted is waited for in one call, before its
// events are followed.
const quickTurn = 250 * time.Millisecond

// A turnView shows what comes of a turn that a command has begun, or goes on with.
type turnView struct {
	r        *daemonCommand
	s        streams
	c        *client.Client
	whole    bool      // all output is shown, as it comes; else a reply, which may leave out the middle
	until    time.Time // for so long the command waits
	begun    bool      // an event of the turn has come
	unrun    bool      // the turn is over and has not begun
	text     timeline.Transcript
	pictures int           // that have come
	replied  session.Reply // what it was when it was last asked for
}

// turnView is a view for a command that waits for so long. A person reads the beginning and the end of
// much output; a file or a program gets all of it.
func (r *daemonCommand) turnView(s streams, c *client.Client, wait time.Duration) *turnView {
	return &turnView{r: r, s: s, c: c, until: time.Now().Add(wait), whole: !r.json && !isTerminal(s.out)}
}

// firstWait is for how long the call that begins the turn waits.
func (v *turnView) firstWait() int64 {
	wait := max(time.Until(v.until), 0)
	if v.whole {
		wait = min(wait, quickTurn)
	}
	return wait.Milliseconds()
}

// show shows the turn: reply is the answer to the call that began it, and after the cursor before its
// first event; 0 is before those of the reply.
func (v *turnView) show(ctx context.Context, reply session.Reply, after timeline.Seq) (int, error) {
	v.replied = reply
	switch {
	case v.r.json:
		return replyStatus(reply), printJSON(v.s.out, reply)
	case !v.whole:
		return v.summary(ctx, reply)
	}
	if after == 0 && len(reply.Events) > 0 {
		after = reply.Events[0].Seq - 1
	}
	err := v.all(ctx, after)
	if err == nil {
		_, err = v.s.out.Write(v.text.Flush())
	}
	if err != nil {
		return v.failed(ctx, err)
	}
	v.tell(v.replied)
	return replyStatus(v.replied), nil
}

// failed ends the view with an error. The end of the command ends the turn, too; an output that
// nobody takes does not.
func (v *turnView) failed(ctx context.Context, err error) (int, error) {
	turn := v.replied
	switch {
	case ctx.Err() != nil:
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), shortTime)
		defer stop()
		_, _ = v.c.InterruptTurn(bounded, client.InterruptParams{Session: turn.Session, Turn: turn.Turn, Author: commandAuthor(v.r.flags.Name())})
	case errors.Is(err, syscall.EPIPE):
		if turn.Outcome == "" {
			fmt.Fprintf(v.s.err, "repl: nobody reads the output: turn %d goes on in %s\n", turn.Turn, turn.Session)
		}
		return 128 + int(syscall.SIGPIPE), nil
	}
	return statusFailed, err
}

// shortTime bounds a call after which the command ends.
const shortTime = 5 * time.Second

// all shows all events of the turn behind a cursor, until the turn is over or asks for something, or
// the wait is over.
func (v *turnView) all(ctx context.Context, after timeline.Seq) error {
	if v.isWhole(v.replied) {
		return v.events()
	}
	limited, stop := context.WithDeadline(ctx, v.until)
	defer stop()
	w, err := v.c.Subscribe(limited, client.SubscribeParams{Session: v.replied.Session, After: after, Author: commandAuthor(v.r.flags.Name())})
	if err != nil {
		return v.overdue(ctx, limited, err)
	}
	defer func() {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), shortTime)
		defer stop()
		_ = w.Cancel(bounded)
	}()
	died := false
	for {
		e, err := w.Next(limited)
		if err != nil {
			return v.overdue(ctx, limited, err)
		}
		if over, err := v.neverRan(ctx, e); over || err != nil {
			return err
		}
		if err := v.event(e); err != nil {
			return err
		}
		switch b := e.Body.(type) {
		case timeline.TurnEnded:
			if e.Turn != v.replied.Turn {
				continue
			}
			v.replied.Outcome = b.Outcome
			if died = b.Outcome == timeline.OutcomeEnded; !died { // else the end of the worker comes next
				return nil
			}
		case timeline.WorkerExited:
			if died {
				return nil
			}
		case timeline.InputRequested:
			if err := v.ask(ctx, e.Seq); err != nil || v.replied.InputRequest != nil {
				return err
			}
		}
	}
}

// neverRan shows a turn that is over without having begun, and reports whether this is one: its worker did not
// start, or somebody has interrupted it before. It has no event of its own; e is one that may tell this.
func (v *turnView) neverRan(ctx context.Context, e timeline.Event) (bool, error) {
	switch e.Body.(type) {
	case timeline.WorkerExited, timeline.Notice:
	default:
		return false, nil
	}
	if v.replied.Outcome != "" || e.Turn == v.replied.Turn && !e.BetweenTurns || e.Generation < v.replied.Generation {
		return false, nil
	}
	if err := v.ask(ctx, 0); err != nil || !v.isUnrun() {
		v.replied.Outcome = ""
		return false, err
	}
	return true, v.events()
}

// isUnrun reports whether the turn is over and has not begun.
func (v *turnView) isUnrun() bool {
	ofTurn := func(e timeline.Event) bool { return e.Turn == v.replied.Turn && !e.BetweenTurns }
	return v.replied.Outcome != "" && v.isWhole(v.replied) && !slices.ContainsFunc(v.replied.Events, ofTurn)
}

// events shows a reply that has everything. Of a turn that did not run it is what its worker wrote while it started.
func (v *turnView) events() error {
	v.unrun = v.isUnrun()
	for _, e := range v.replied.Events {
		if err := v.event(e); err != nil {
			return err
		}
	}
	return nil
}

// isWhole reports whether the events of a reply are all that there will be.
func (v *turnView) isWhole(reply session.Reply) bool {
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

// overdue is the end of a wait that was long enough; any other error stays.
func (v *turnView) overdue(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	return v.ask(ctx, v.replied.Next)
}

// ask asks how the turn is now.
func (v *turnView) ask(ctx context.Context, after timeline.Seq) error {
	bounded, stop := context.WithTimeout(ctx, shortTime) // a daemon elsewhere may be gone
	defer stop()
	reply, err := v.c.WaitTurn(bounded, client.WaitParams{Session: v.replied.Session, Turn: v.replied.Turn, After: after})
	if err == nil {
		v.replied = reply
	}
	return err
}

// event writes an event.
func (v *turnView) event(e timeline.Event) error {
	if !v.begun && v.before(e, v.replied) {
		return nil
	}
	if !v.unrun && (e.BetweenTurns || e.Turn != v.replied.Turn) {
		switch e.Body.(type) {
		case timeline.Gap, timeline.WorkerExited:
		default:
			return nil
		}
	}
	v.begun = true
	switch b := e.Body.(type) {
	case timeline.TurnEnded: // whose last line is not always ended
		return nil
	case timeline.Display:
		if mime, data, ok := b.ImageData(); ok {
			v.keepPicture(mime, data)
			return nil
		}
	case timeline.Gap:
		fmt.Fprintf(v.s.err, "repl: %s of the output are lost: the session has dropped them\n", timeline.FormatBytes(b.Bytes))
		return nil
	}
	_, err := v.s.out.Write(v.text.Add(e))
	return err
}

// summary prints the beginning and the end of the output, and says where all of it is.
func (v *turnView) summary(ctx context.Context, reply session.Reply) (int, error) {
	shown := timeline.Render(v.withoutStart(reply), &timeline.RenderOptions{Self: commandAuthor(v.r.flags.Name())})
	midline := false
	for _, p := range shown.Parts {
		if p.Image != nil {
			v.keepPicture(p.Image.MIME, p.Image.Data)
			continue
		}
		midline = !strings.HasSuffix(p.Text, "\n")
		if _, err := io.WriteString(v.s.out, p.Text); err != nil {
			return statusFailed, err
		}
	}
	if midline && reply.Outcome == "" && isTerminal(v.s.err) {
		fmt.Fprintln(v.s.err) // our own message is not a part of the question
	}
	if shown.Omitted || !v.isWhole(reply) && reply.Outcome != "" {
		fmt.Fprintf(v.s.err, "repl: this is not all of the output; all of it is in %s\n", v.outputOf(ctx, reply.Session))
	}
	v.tell(reply)
	return replyStatus(reply), nil
}

// keepPicture keeps a picture of the turn as a file, and says where.
func (v *turnView) keepPicture(mime string, data []byte) {
	v.pictures++
	path, err := v.pictureFile(mime)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		fmt.Fprintf(v.s.err, "repl: a picture of %d bytes (%s) could not be kept: %v\n", len(data), mime, err)
		return
	}
	fmt.Fprintf(v.s.err, "repl: picture: %s, kept for a day\n", path)
}

// pictureFile returns the file of the picture that came last, in a directory that exists.
func (v *turnView) pictureFile(mime string) (string, error) {
	dir := picturesOf(v.r.link.RemoteName(), v.replied.Session)
	if dir == "" {
		return "", errors.New("there is no directory of the user's for it")
	}
	return filepath.Join(dir, fmt.Sprintf("turn-%d-%d.%s", v.replied.Turn, v.pictures, terminal.PictureExtension(mime))), private.MakeDir(dir)
}

// outputOf says where a session keeps its output, or how to get it from elsewhere.
func (v *turnView) outputOf(ctx context.Context, name string) string {
	now, err := v.c.GetSession(ctx, name)
	if err != nil || now.OutputPath == "" || v.r.isAway() {
		return "output.txt: repl files " + name + " output.txt" + v.r.again()
	}
	return filepath.Clean(now.OutputPath)
}

// tell says on standard error how the turn is.
func (v *turnView) tell(reply session.Reply) {
	switch {
	case reply.InputRequest != nil && reply.InputRequest.Permission != nil:
		p := reply.InputRequest.Permission
		fmt.Fprintf(v.s.err, "repl: waits for a permission: %s (allow it with %s, or refuse it with %s --no)\n", p.AccessDenied, allowCommand(reply.Session, p.Grant)+v.r.again(), "repl allow "+reply.Session+v.r.again())
	case reply.InputRequest != nil && reply.InputRequest.Form != nil:
		fmt.Fprintf(v.s.err, "repl: waits for a person: %s (answer at repl attach %s)\n", reply.InputRequest.Form.Question(), reply.Session)
	case reply.InputRequest != nil:
		fmt.Fprintf(v.s.err, "repl: waiting for input: %q (answer with repl input %s)\n", reply.InputRequest.Prompt, reply.Session)
	case reply.Outcome == "":
		fmt.Fprintf(v.s.err, "repl: still running: repl events %s --follow shows what comes, repl interrupt %s stops it\n", reply.Session, reply.Session)
	}
}
