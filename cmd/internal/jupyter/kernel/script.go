package kernel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/comms"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// Bounds of messages with text.
const (
	textDelay    = 100 * time.Millisecond // how long text waits for more
	echoDelay    = 2 * time.Second        // how long the echo of a value waits for more of it
	maxTextBytes = 64 << 10               // bytes of pending text
	maxEchoBytes = 16 << 20               // bytes of the echo of a value
)

// A turnWriter converts the events of one session to messages for one peer.
type turnWriter struct {
	peer    *subscriber
	session *attachedSession
	turn    *sessionTurn // of the last event; nil before the first

	comms    *comms.CommCursor
	commsDue timeline.Seq // changes of comms are sent after this event; 0 without changes

	stream        string // of text
	text          []byte
	promptPrinted bool   // the prompt of the last input request was sent as text
	skipNewline   bool   // the newline after a secret is next, which must not be shown
	echo          []byte // of a value; a display of the same value may follow
	trace         []byte // all error reports of the turn
	pendingErrors []byte // the last error reports and later stderr text, until the turn ends with them or continues
	pendingStderr []byte // the stderr text in pendingErrors after the last error report
	workerExit    *timeline.WorkerExited
	pendingEnd    *timeline.TurnEnded // the end of the turn, until it is known how the worker ended
	flushTimer    *time.Timer
	timerRuns     bool
}

// startTimer makes the pending text be sent after textDelay.
func (tw *turnWriter) startTimer() {
	if !tw.timerRuns {
		tw.timerRuns = true
		tw.ensureTimer().Reset(textDelay)
	}
}

// takeEcho returns and clears the echo of a value, and stops its timer.
func (tw *turnWriter) takeEcho() string {
	echo := strings.TrimSuffix(string(tw.echo), "\n")
	tw.echo, tw.timerRuns = nil, false
	tw.ensureTimer().Stop()
	return echo
}

// ensureTimer returns the timer that fires when text has waited long enough.
func (tw *turnWriter) ensureTimer() *time.Timer {
	if tw.flushTimer == nil {
		tw.flushTimer = time.NewTimer(time.Hour)
		tw.flushTimer.Stop()
	}
	return tw.flushTimer
}

// writeEvent sends the messages for an event.
func (tw *turnWriter) writeEvent(ctx context.Context, e timeline.Event) error {
	if e.Turn == 0 {
		return nil // the start of a worker belongs to no cell
	}
	if tw.turn == nil || tw.turn.number != e.Turn {
		if err := tw.switchTurn(ctx, e); err != nil {
			return err
		}
	}
	if tw.turn.silent && tw.turn.ownRequest == nil {
		return nil // a tool evaluates something in the background
	}
	if text, ok := e.Body.(timeline.Text); ok {
		return tw.addText(text)
	}
	if d, ok := e.Body.(timeline.Display); ok && len(d.Omitted) > 0 {
		e.Body = tw.session.completeDisplay(ctx, d)
	}
	if err := tw.openComms(ctx, e); err != nil {
		return err
	}
	if d, ok := e.Body.(timeline.Display); ok && d.Result && !d.Update {
		return tw.writeResult(d)
	}
	if w, ok := e.Body.(timeline.InputRequested); ok {
		tw.cutPrompt(w)
	}
	if _, ends := e.Body.(timeline.TurnEnded); !ends {
		if err := tw.flushErrors(); err != nil {
			return err
		}
	}
	if err := tw.flushText(true); err != nil {
		return err
	}
	return tw.writeOther(ctx, e)
}

// flushErrors sends error reports that did not end the turn, such as those of R's try().
func (tw *turnWriter) flushErrors() error {
	if len(tw.pendingErrors) == 0 {
		return nil
	}
	text := string(tw.pendingErrors)
	tw.pendingErrors, tw.pendingStderr = nil, nil
	return tw.sendMessage("stream", streamContent("stderr", text))
}

// cutPrompt removes the prompt of an input request from the text: the front end that is asked shows it.
func (tw *turnWriter) cutPrompt(w timeline.InputRequested) {
	shown := w.Prompt != "" && bytes.HasSuffix(tw.text, []byte(w.Prompt))
	if tw.promptPrinted = shown && tw.turn.ownRequest == nil; shown && !tw.promptPrinted {
		tw.text = tw.text[:len(tw.text)-len(w.Prompt)]
		tw.skipNewline = w.Kind == timeline.InputKindSecret
	}
}

// switchTurn sends the remaining messages of the last turn, and starts another turn.
func (tw *turnWriter) switchTurn(ctx context.Context, e timeline.Event) error {
	tw.skipNewline = false
	err := tw.flushText(true)
	if err == nil && tw.turn != nil {
		err = tw.flushErrors()
	}
	tw.trace, tw.pendingErrors, tw.pendingStderr, tw.workerExit, tw.pendingEnd = nil, nil, nil, nil, nil
	if tw.turn = tw.session.awaitTurn(ctx, e.Turn, e.Seq); tw.turn == nil {
		tw.turn = &sessionTurn{number: e.Turn, parent: tw.session.parentHeader(e.Turn, ""), count: e.Turn, silent: e.Silent}
	}
	return err
}

// writeOther sends the messages for an event that is not text.
func (tw *turnWriter) writeOther(ctx context.Context, e timeline.Event) error {
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return tw.writeBegin()
	case timeline.TurnEnded:
		return tw.writeEnd(ctx, b)
	case timeline.Display:
		return tw.writeDisplay(b)
	case timeline.OutputCleared:
		return tw.sendMessage("clear_output", map[string]bool{"wait": b.Wait})
	case timeline.InputLine:
		return tw.writeInputLine(b)
	case timeline.WorkerExited:
		tw.workerExit = &b
		if end := tw.pendingEnd; end != nil {
			tw.pendingEnd = nil
			return tw.writeEnd(ctx, *end)
		}
		return nil
	case timeline.Notice, timeline.AccessDenied, timeline.AccessGranted, timeline.Limit, timeline.Gap, timeline.Omitted:
		text := strings.TrimRight(render.Events([]timeline.Event{e}, nil).Text(), "\n")
		if text == "" {
			return nil
		}
		return tw.sendMessage("stream", streamContent("stderr", text+"\n"))
	}
	return nil
}

func (tw *turnWriter) writeBegin() error {
	t := tw.turn
	if r := t.ownRequest; r == nil || !r.isAnnounced() {
		if err := tw.sendMessage("status", statusContent{"busy"}); err != nil {
			return err
		}
	}
	if t.silent {
		return nil
	}
	return tw.sendMessage("execute_input", map[string]any{"code": t.code, "execution_count": t.count})
}

func (tw *turnWriter) writeEnd(ctx context.Context, b timeline.TurnEnded) error {
	if b.Outcome == timeline.OutcomeEnded && tw.workerExit == nil {
		tw.pendingEnd = &b // the WorkerExited event follows
		return nil
	}
	f := newErrorContent(b, tw.trace, tw.workerExit)
	if f != nil {
		if err := tw.sendMessage("error", f); err != nil {
			return err
		}
		tw.pendingErrors = tw.pendingStderr // such as R's warnings "In addition"
	}
	if err := tw.flushErrors(); err != nil {
		return err
	}
	if err := tw.writeComms(ctx, false); err != nil {
		return err
	}
	if r := tw.turn.ownRequest; r != nil { // the reply goes first, because some clients stop waiting at this status
		select {
		case <-r.replied:
		case <-tw.peer.conn.Closed():
		case <-ctx.Done():
		}
	}
	return tw.sendMessage("status", statusContent{"idle"})
}

// writeInputLine shows an input line of another client. A front end itself shows the lines of its user.
func (tw *turnWriter) writeInputLine(b timeline.InputLine) error {
	if tw.turn.ownRequest != nil && b.Author == tw.session.session.Author() {
		return nil
	}
	if b.Keys {
		return tw.sendMessage("stream", streamContent("stderr", "["+b.NoticeText()+"]\n"))
	}
	text := b.Text
	if b.Secret {
		text = "········"
	}
	if !tw.promptPrinted {
		text = b.Prompt + text
	}
	return tw.sendMessage("stream", streamContent("stdout", text+"\n"))
}

// addText collects text, and sends the part that must not wait.
func (tw *turnWriter) addText(t timeline.Text) error {
	name := "stdout"
	if t.Stream == timeline.Stderr {
		name = "stderr"
	}
	if tw.skipNewline && t.Kind == "" && len(t.Data) > 0 {
		tw.skipNewline = false
		t.Data = bytes.TrimPrefix(t.Data, []byte("\n"))
	}
	switch t.Kind {
	case timeline.TextResult:
		if tw.turn.silent {
			return nil
		}
		if err := tw.flushErrors(); err != nil {
			return err
		}
		if len(tw.text) > 0 {
			if err := tw.flushText(true); err != nil {
				return err
			}
		}
		if len(tw.echo) < maxEchoBytes {
			tw.echo = append(tw.echo, t.Data...)
		}
		tw.timerRuns = true // wait for the rest: a second message for the same value would be another output
		tw.ensureTimer().Reset(echoDelay)
		return nil
	case timeline.TextTraceback:
		if len(tw.trace) < maxTracebackBytes {
			tw.trace = append(tw.trace, t.Data...)
		}
		if err := tw.flushText(true); err != nil { // text before the traceback
			return err
		}
		tw.pendingErrors = append(tw.pendingErrors, t.Data...)
		return tw.limitText()
	}
	if len(tw.pendingErrors) > 0 && name == "stderr" {
		tw.pendingErrors, tw.pendingStderr = append(tw.pendingErrors, t.Data...), append(tw.pendingStderr, t.Data...)
		return tw.limitText()
	}
	if err := tw.flushErrors(); err != nil {
		return err
	}
	if len(tw.echo) > 0 || name != tw.stream && len(tw.text) > 0 {
		if err := tw.flushText(true); err != nil {
			return err
		}
	}
	tw.startTimer()
	tw.stream, tw.text = name, append(tw.text, t.Data...)
	if len(tw.text) >= maxTextBytes {
		return tw.flushText(false)
	}
	return nil
}

// limitText sends the pending errors if they have become too large to wait.
func (tw *turnWriter) limitText() error {
	if len(tw.pendingErrors) < maxTracebackBytes {
		return nil
	}
	return tw.flushErrors()
}

// flushText sends the pending text. Unless all is set, it retains the bytes of an incomplete character
// at the end, whose rest may follow.
func (tw *turnWriter) flushText(all bool) error {
	if len(tw.echo) > 0 {
		return tw.sendMessage("execute_result", map[string]any{
			"execution_count": tw.turn.count, "data": map[string]string{"text/plain": tw.takeEcho()}, "metadata": struct{}{},
		})
	}
	n := len(tw.text)
	if !all {
		n = completeLength(tw.text)
	}
	if n == 0 {
		return nil
	}
	text := string(tw.text[:n])
	tw.text = append(tw.text[:0], tw.text[n:]...)
	return tw.sendMessage("stream", streamContent(tw.stream, text))
}

// completeLength returns the length of text without an incomplete character at its end.
func completeLength(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if c := text[len(text)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-back:]) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

func (tw *turnWriter) writeDisplay(d timeline.Display) error {
	if tw.turn.silent {
		return nil
	}
	kind := "display_data"
	if d.Update {
		kind = "update_display_data"
	}
	data := mimeBundle(d)
	if _, ok := data["text/plain"]; !ok && d.Title != "" {
		data["text/plain"] = "<" + d.Title + " object>"
	}
	return tw.sendMessage(kind, map[string]any{"data": data, "metadata": d.PortableMeta(), "transient": displayTransient(d)})
}

// writeResult sends the value of the turn, whose echo has come before it. As in IPython, its bundle always
// has a text, which is all that some front ends show.
func (tw *turnWriter) writeResult(d timeline.Display) error {
	if tw.turn.silent {
		return nil
	}
	echo := tw.takeEcho()
	if err := tw.flushText(true); err != nil {
		return err
	}
	data := mimeBundle(d)
	if _, ok := data["text/plain"]; !ok {
		data["text/plain"] = cmp.Or(echo, "<"+cmp.Or(d.Title, "value")+" object>")
	}
	return tw.sendMessage("execute_result", map[string]any{
		"execution_count": tw.turn.count, "data": data, "metadata": d.PortableMeta(), "transient": displayTransient(d),
	})
}

// sendMessage sends a message of the turn.
func (tw *turnWriter) sendMessage(kind string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	parent := tw.turn.parent
	return tw.peer.sendMessage(iopubMessage{parent: &parent, kind: kind, content: raw})
}

// openComms sends the new comms to which an event may refer.
func (tw *turnWriter) openComms(ctx context.Context, e timeline.Event) error {
	switch b := e.Body.(type) {
	case timeline.OutputCleared:
		return tw.writeComms(ctx, true)
	case timeline.Display:
		if b.Data[timeline.MIMEWidget] != nil {
			return tw.writeComms(ctx, true)
		}
	}
	return nil
}

// writeDueComms sends changes of comms whose turn the peer knows.
func (tw *turnWriter) writeDueComms(ctx context.Context) error {
	if tw.commsDue == 0 || tw.commsDue > tw.peer.sentUntil() {
		return nil
	}
	tw.commsDue = 0
	return tw.writeComms(ctx, false)
}

// writeComms sends what has changed in the comms of the session; with hold, only the new ones.
func (tw *turnWriter) writeComms(ctx context.Context, hold bool) error {
	var parent *wire.Header
	if tw.turn != nil {
		parent = &tw.turn.parent
	}
	for _, m := range tw.comms.Read(ctx, hold) {
		raw, err := json.Marshal(m.Content)
		if err == nil {
			err = tw.peer.sendMessage(iopubMessage{parent: parent, kind: m.Kind, content: raw, comm: m})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
