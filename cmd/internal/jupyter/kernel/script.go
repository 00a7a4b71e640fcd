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
	maxTextBytes      = 64 << 10               // bytes of text that wait
	maxTracebackBytes = 256 << 10              // bytes of a traceback
	maxEchoBytes      = 16 << 20               // bytes of the echo of a value
)

// A turnWriter turns the events of one life into messages for one peer.
type turnWriter struct {
	peer    *subscriber
	session *attachedSession
	turn    *sessionTurn // of the last event; nil before the first

	stream        string // of text
	text          []byte
	promptPrinted bool   // the prompt of the last question was sent as text
	skipNewline   bool   // the newline behind a secret is next, which nobody has seen typed
	echo          []byte // of a value, which a display of the same may follow
	trace         []byte // of all reports of errors, for the one that ends the turn
	pendingErrors []byte // the last reports, until the turn ends with them or goes on, with what was written to stderr since
	pendingStderr []byte // of untold, what was written since
	workerExit    *timeline.WorkerExited
	pendingEnd    *timeline.TurnEnded // until it is known how the worker died
	flushTimer    *time.Timer
	timerRuns     bool // the timer runs
}

// startTimer lets the text that waits go soon.
func (s *turnWriter) startTimer() {
	if !s.timerRuns {
		s.timerRuns = true
		s.ensureTimer().Reset(textDelay)
	}
}

// takeEcho returns the echo of a value, for which nothing waits any more.
func (s *turnWriter) takeEcho() string {
	echo := strings.TrimSuffix(string(s.echo), "\n")
	s.echo, s.timerRuns = nil, false
	s.ensureTimer().Stop()
	return echo
}

// ensureTimer fires when text has waited for long enough.
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
		return nil // The start of a worker is nobody's cell.
	}
	if s.turn == nil || s.turn.number != e.Turn {
		if err := s.switchTurn(ctx, e); err != nil {
			return err
		}
	}
	if s.turn.silent && s.turn.ownRequest == nil {
		return nil // A tool asks behind the scenes.
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

// flushErrors sends reports of errors that did not end the turn, such as those of R's try().
func (s *turnWriter) flushErrors() error {
	if len(s.pendingErrors) == 0 {
		return nil
	}
	text := string(s.pendingErrors)
	s.pendingErrors, s.pendingStderr = nil, nil
	return s.sendMessage("stream", streamContent("stderr", text))
}

// cutPrompt takes the prompt of a question out of the text: the front end that is asked shows it.
func (s *turnWriter) cutPrompt(w timeline.InputRequested) {
	shown := w.Prompt != "" && bytes.HasSuffix(s.text, []byte(w.Prompt))
	if s.promptPrinted = shown && s.turn.ownRequest == nil; shown && !s.promptPrinted {
		s.text = s.text[:len(s.text)-len(w.Prompt)]
		s.skipNewline = w.Kind == timeline.InputKindSecret
	}
}

// switchTurn turns to another turn.
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
		if held := s.pendingEnd; held != nil {
			s.pendingEnd = nil
			return s.writeEnd(ctx, *held)
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
		s.pendingEnd = &b // The report of the worker's death follows.
		return nil
	}
	f := newErrorContent(b, s.trace, s.workerExit)
	if f != nil {
		if err := s.sendMessage("error", f); err != nil {
			return err
		}
		s.pendingErrors = s.pendingStderr // such as the warnings "in addition"
	}
	if err := s.flushErrors(); err != nil {
		return err
	}
	if r := s.turn.ownRequest; r != nil { // a client that takes this for the end must not be ahead of the reply
		select {
		case <-r.replied:
		case <-s.peer.conn.Closed():
		case <-ctx.Done():
		}
	}
	return s.sendMessage("status", statusContent{"idle"})
}

// writeInputLine shows a line that somebody else gave. A front end shows the lines of its own user itself.
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

// addText collects text.
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
		s.timerRuns = true // a second result of the same value would be another output
		s.ensureTimer().Reset(echoDelay)
		return nil
	case timeline.TextTraceback:
		if len(s.trace) < maxTracebackBytes {
			s.trace = append(s.trace, t.Data...)
		}
		if err := s.flushText(true); err != nil { // it came before
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

// limitText tells what is too much to wait.
func (s *turnWriter) limitText() error {
	if len(s.pendingErrors) < maxTracebackBytes {
		return nil
	}
	return s.flushErrors()
}

// flushText sends the text that waits. Unless all has to go, the bytes of a character whose rest may
// be about to come stay.
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

// completeLength is the length of text without a character at its end that is incomplete.
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

// writeResult sends the value of the turn, whose echo came before it.
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

// newErrorContent says how a turn failed; nil if it did not.
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

// exitMessage says that a worker has ended.
func exitMessage(died *timeline.WorkerExited) string {
	text := "the worker ended: " + died.Reason
	if died.Message != "" {
		text += ": " + died.Message
	}
	return text + "; the next cell starts a new one, without the variables"
}
