package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds of messages with text.
const (
	textDelay         = 100 * time.Millisecond // how long text waits for more
	echoDelay         = 500 * time.Millisecond // how long the echo of a value waits for more of it
	maxTextBytes      = 64 << 10               // bytes of pending text
	maxTracebackBytes = 256 << 10              // bytes of a traceback
	maxEchoBytes      = 16 << 20               // bytes of the echo of a value
)

// A turnWriter converts the events of one session to messages for one peer.
type turnWriter struct {
	peer    *subscriber
	session *attachedSession
	turn    *sessionTurn // of the last event; nil before the first

	stream        string // of text
	text          []byte
	promptPrinted bool   // the prompt of the last input request was sent as text
	skipNewline   bool   // the newline after a secret is next, which must not be shown
	echo          []byte // of a value; a display of the same value may follow
	trace         []byte // all error reports of the turn
	pendingErrors []byte // the last error reports and later stderr text, until the turn ends with them or continues
	pendingStderr []byte // the stderr text in pendingErrors after the last error report
	workerExit    *timeline.WorkerExited
	pendingEnd    *timeline.TurnEnded // until it is known how the worker ended
	flushTimer    *time.Timer
	timerRuns     bool
}

// startTimer makes the pending text be sent after textDelay.
func (s *turnWriter) startTimer() {
	if !s.timerRuns {
		s.timerRuns = true
		s.ensureTimer().Reset(textDelay)
	}
}

// takeEcho returns and clears the echo of a value, and stops its timer.
func (s *turnWriter) takeEcho() string {
	echo := strings.TrimSuffix(string(s.echo), "\n")
	s.echo, s.timerRuns = nil, false
	s.ensureTimer().Stop()
	return echo
}

// ensureTimer returns the timer that fires when text has waited long enough.
func (s *turnWriter) ensureTimer() *time.Timer {
	if s.flushTimer == nil {
		s.flushTimer = time.NewTimer(time.Hour)
		s.flushTimer.Stop()
	}
	return s.flushTimer
}

// writeEvent sends the messages for an event.
func (s *turnWriter) writeEvent(ctx context.Context, e timeline.Event) error {
	if e.Turn == 0 {
		return nil // the start of a worker belongs to no cell
	}
	if s.turn == nil || s.turn.number != e.Turn {
		if err := s.switchTurn(ctx, e); err != nil {
			return err
		}
	}
	if s.turn.silent && s.turn.ownRequest == nil {
		return nil // a tool evaluates something in the background
	}
	if text, ok := e.Body.(timeline.Text); ok {
		return s.addText(text)
	}
	if d, ok := e.Body.(timeline.Display); ok && len(d.Omitted) > 0 {
		e.Body = s.session.completeDisplay(ctx, d)
	}
	if d, ok := e.Body.(timeline.Display); ok && d.Result && !d.Update {
		return s.writeResult(d)
	}
	if w, ok := e.Body.(timeline.InputRequested); ok {
		s.cutPrompt(w)
	}
	if _, ends := e.Body.(timeline.TurnEnded); !ends {
		if err := s.flushErrors(); err != nil {
			return err
		}
	}
	if err := s.flushText(true); err != nil {
		return err
	}
	return s.writeOther(ctx, e)
}

// flushErrors sends error reports that did not end the turn, such as those of R's try().
func (s *turnWriter) flushErrors() error {
	if len(s.pendingErrors) == 0 {
		return nil
	}
	text := string(s.pendingErrors)
	s.pendingErrors, s.pendingStderr = nil, nil
	return s.sendMessage("stream", streamContent("stderr", text))
}

// cutPrompt removes the prompt of an input request from the text: the front end that is asked shows it.
func (s *turnWriter) cutPrompt(w timeline.InputRequested) {
	shown := w.Prompt != "" && bytes.HasSuffix(s.text, []byte(w.Prompt))
	if s.promptPrinted = shown && s.turn.ownRequest == nil; shown && !s.promptPrinted {
		s.text = s.text[:len(s.text)-len(w.Prompt)]
		s.skipNewline = w.Kind == timeline.InputKindSecret
	}
}

// switchTurn sends what is left of the last turn and starts another one.
func (s *turnWriter) switchTurn(ctx context.Context, e timeline.Event) error {
	s.skipNewline = false
	err := s.flushText(true)
	if err == nil && s.turn != nil {
		err = s.flushErrors()
	}
	s.trace, s.pendingErrors, s.pendingStderr, s.workerExit, s.pendingEnd = nil, nil, nil, nil, nil
	if s.turn = s.session.awaitTurn(ctx, e.Turn, e.Seq); s.turn == nil {
		s.turn = &sessionTurn{number: e.Turn, parent: s.session.parentHeader(e.Turn, ""), count: e.Turn, silent: e.Silent}
	}
	return err
}

// writeOther sends the messages for an event that is not text.
func (s *turnWriter) writeOther(ctx context.Context, e timeline.Event) error {
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return s.writeBegin()
	case timeline.TurnEnded:
		return s.writeEnd(ctx, b)
	case timeline.Display:
		return s.writeDisplay(b)
	case timeline.OutputCleared:
		return s.sendMessage("clear_output", map[string]bool{"wait": b.Wait})
	case timeline.InputLine:
		return s.writeInputLine(b)
	case timeline.WorkerExited:
		s.workerExit = &b
		if end := s.pendingEnd; end != nil {
			s.pendingEnd = nil
			return s.writeEnd(ctx, *end)
		}
		return nil
	case timeline.Notice, timeline.AccessDenied, timeline.AccessGranted, timeline.Limit, timeline.Gap, timeline.Omitted:
		text := strings.TrimRight(timeline.Render([]timeline.Event{e}, nil).Text(), "\n")
		if text == "" {
			return nil
		}
		return s.sendMessage("stream", streamContent("stderr", text+"\n"))
	}
	return nil
}

func (s *turnWriter) writeBegin() error {
	t := s.turn
	if r := t.ownRequest; r == nil || !r.isAnnounced() {
		if err := s.sendMessage("status", statusContent{"busy"}); err != nil {
			return err
		}
	}
	if t.silent {
		return nil
	}
	return s.sendMessage("execute_input", map[string]any{"code": t.code, "execution_count": t.count})
}

func (s *turnWriter) writeEnd(ctx context.Context, b timeline.TurnEnded) error {
	if b.Outcome == timeline.OutcomeEnded && s.workerExit == nil {
		s.pendingEnd = &b // the WorkerExited event follows
		return nil
	}
	f := newErrorContent(b, s.trace, s.workerExit)
	if f != nil {
		if err := s.sendMessage("error", f); err != nil {
			return err
		}
		s.pendingErrors = s.pendingStderr // such as R's warnings "In addition"
	}
	if err := s.flushErrors(); err != nil {
		return err
	}
	if r := s.turn.ownRequest; r != nil { // the reply goes first, for clients that take this status for the end
		select {
		case <-r.replied:
		case <-s.peer.conn.Closed():
		case <-ctx.Done():
		}
	}
	return s.sendMessage("status", statusContent{"idle"})
}

// writeInputLine shows an input line of another client. A front end itself shows the lines of its user.
func (s *turnWriter) writeInputLine(b timeline.InputLine) error {
	if s.turn.ownRequest != nil && b.Author == s.session.session.Author() {
		return nil
	}
	text := b.Text
	if b.Secret {
		text = "········"
	}
	if !s.promptPrinted {
		text = b.Prompt + text
	}
	return s.sendMessage("stream", streamContent("stdout", text+"\n"))
}

// addText collects text, and sends what must not wait.
func (s *turnWriter) addText(t timeline.Text) error {
	name := "stdout"
	if t.Stream == timeline.Stderr {
		name = "stderr"
	}
	if s.skipNewline && t.Kind == "" && len(t.Data) > 0 {
		s.skipNewline = false
		t.Data = bytes.TrimPrefix(t.Data, []byte("\n"))
	}
	switch t.Kind {
	case timeline.TextResult:
		if s.turn.silent {
			return nil
		}
		if err := s.flushErrors(); err != nil {
			return err
		}
		if len(s.text) > 0 {
			if err := s.flushText(true); err != nil {
				return err
			}
		}
		if len(s.echo) < maxEchoBytes {
			s.echo = append(s.echo, t.Data...)
		}
		s.timerRuns = true // wait for the rest: a second message for the same value would be another output
		s.ensureTimer().Reset(echoDelay)
		return nil
	case timeline.TextTraceback:
		if len(s.trace) < maxTracebackBytes {
			s.trace = append(s.trace, t.Data...)
		}
		if err := s.flushText(true); err != nil { // text before the traceback
			return err
		}
		s.pendingErrors = append(s.pendingErrors, t.Data...)
		return s.limitText()
	}
	if len(s.pendingErrors) > 0 && name == "stderr" {
		s.pendingErrors, s.pendingStderr = append(s.pendingErrors, t.Data...), append(s.pendingStderr, t.Data...)
		return s.limitText()
	}
	if err := s.flushErrors(); err != nil {
		return err
	}
	if len(s.echo) > 0 || name != s.stream && len(s.text) > 0 {
		if err := s.flushText(true); err != nil {
			return err
		}
	}
	s.startTimer()
	s.stream, s.text = name, append(s.text, t.Data...)
	if len(s.text) >= maxTextBytes {
		return s.flushText(false)
	}
	return nil
}

// limitText sends the pending errors if they have become too large to wait.
func (s *turnWriter) limitText() error {
	if len(s.pendingErrors) < maxTracebackBytes {
		return nil
	}
	return s.flushErrors()
}

// flushText sends the pending text. Unless all is set, it retains the bytes of an incomplete character
// at the end, whose rest may follow.
func (s *turnWriter) flushText(all bool) error {
	if len(s.echo) > 0 {
		return s.sendMessage("execute_result", map[string]any{
			"execution_count": s.turn.count, "data": map[string]string{"text/plain": s.takeEcho()}, "metadata": struct{}{},
		})
	}
	n := len(s.text)
	if !all {
		n = completeLength(s.text)
	}
	if n == 0 {
		return nil
	}
	text := string(s.text[:n])
	s.text = append(s.text[:0], s.text[n:]...)
	return s.sendMessage("stream", streamContent(s.stream, text))
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

func streamContent(name, text string) map[string]string {
	return map[string]string{"name": name, "text": strings.ToValidUTF8(text, "\uFFFD")}
}

func (s *turnWriter) writeDisplay(d timeline.Display) error {
	if s.turn.silent {
		return nil
	}
	kind := "display_data"
	if d.Update {
		kind = "update_display_data"
	}
	return s.sendMessage(kind, map[string]any{"data": mimeBundle(d), "metadata": displayMetadata(d), "transient": displayTransient(d)})
}

// writeResult sends the value of the turn, whose echo has come before it.
func (s *turnWriter) writeResult(d timeline.Display) error {
	if s.turn.silent {
		return nil
	}
	echo := s.takeEcho()
	if err := s.flushText(true); err != nil {
		return err
	}
	data := mimeBundle(d)
	if _, ok := data["text/plain"]; !ok && echo != "" {
		data["text/plain"] = echo
	}
	return s.sendMessage("execute_result", map[string]any{
		"execution_count": s.turn.count, "data": data, "metadata": displayMetadata(d), "transient": displayTransient(d),
	})
}

// sendMessage sends a message of the turn.
func (s *turnWriter) sendMessage(kind string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	parent := s.turn.parent
	return s.peer.sendMessage(iopubMessage{parent: &parent, kind: kind, content: raw})
}

// An errorContent is the content of an error message.
type errorContent struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// newErrorContent describes how a turn failed, or returns nil if it did not.
func newErrorContent(b timeline.TurnEnded, trace []byte, died *timeline.WorkerExited) *errorContent {
	f := &errorContent{Name: b.Name, Value: b.Message}
	switch {
	case b.Outcome == timeline.OutcomeOK:
		return nil
	case b.Outcome == timeline.OutcomeEnded:
		f.Name = "WorkerEnded"
		if died != nil {
			f.Value = exitMessage(died)
		}
	case f.Name == "" && b.Outcome == timeline.OutcomeInterrupted:
		f.Name = "KeyboardInterrupt"
	case f.Name == "":
		f.Name = "Error"
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(trace), "\uFFFD"), "\n")
	if text == "" {
		text = strings.TrimSuffix(f.Name+": "+f.Value, ": ")
	}
	f.Traceback = strings.Split(text, "\n")
	return f
}

// exitMessage returns a sentence about the end of a worker.
func exitMessage(died *timeline.WorkerExited) string {
	text := "the worker ended: " + died.Reason
	if died.Message != "" {
		text += ": " + died.Message
	}
	return text + "; the next cell starts a new one, without the variables"
}
