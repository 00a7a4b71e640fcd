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
	textTime     = 100 * time.Millisecond // how long text waits for more
	echoTime     = 500 * time.Millisecond // how long the echo of a value waits for more of it
	maxText      = 64 << 10               // bytes of text that wait
	maxTraceback = 256 << 10              // bytes of a traceback
	maxEcho      = 16 << 20               // bytes of the echo of a value
)

// A script turns the events of one life into messages for one peer.
type script struct {
	p    *subscriber
	life *life
	turn *turn // of the last event; nil before the first

	stream   string // of text
	text     []byte
	prompted bool   // the prompt of the last question was sent as text
	lineEnds bool   // the newline behind a secret is next, which nobody has seen typed
	echo     []byte // of a value, which a display of the same may follow
	trace    []byte // of all reports of errors, for the one that ends the turn
	untold   []byte // the last reports, until the turn ends with them or goes on, with what was written to stderr since
	behind   []byte // of untold, what was written since
	died     *timeline.WorkerExited
	held     *timeline.TurnEnded // until it is known how the worker died
	flusher  *time.Timer
	armed    bool // the timer runs
}

// arm lets the text that waits go soon.
func (s *script) arm() {
	if !s.armed {
		s.armed = true
		s.timer().Reset(textTime)
	}
}

// taken returns the echo of a value, for which nothing waits any more.
func (s *script) taken() string {
	echo := strings.TrimSuffix(string(s.echo), "\n")
	s.echo, s.armed = nil, false
	s.timer().Stop()
	return echo
}

// timer fires when text has waited for long enough.
func (s *script) timer() *time.Timer {
	if s.flusher == nil {
		s.flusher = time.NewTimer(time.Hour)
		s.flusher.Stop()
	}
	return s.flusher
}

// event sends the messages for an event.
func (s *script) event(ctx context.Context, e timeline.Event) error {
	if e.Turn == 0 {
		return nil // The start of a worker is nobody's cell.
	}
	if s.turn == nil || s.turn.number != e.Turn {
		if err := s.change(ctx, e); err != nil {
			return err
		}
	}
	if s.turn.silent && s.turn.request == nil {
		return nil // A tool asks behind the scenes.
	}
	if text, ok := e.Body.(timeline.Text); ok {
		return s.write(text)
	}
	if d, ok := e.Body.(timeline.Display); ok && len(d.Omitted) > 0 {
		e.Body = s.life.complete(ctx, d)
	}
	if d, ok := e.Body.(timeline.Display); ok && d.Result && !d.Update {
		return s.result(d)
	}
	if w, ok := e.Body.(timeline.InputRequested); ok {
		s.ask(w)
	}
	if _, ends := e.Body.(timeline.TurnEnded); !ends {
		if err := s.tell(); err != nil {
			return err
		}
	}
	if err := s.flush(true); err != nil {
		return err
	}
	return s.other(ctx, e)
}

// tell sends reports of errors that did not end the turn, such as those of R's try().
func (s *script) tell() error {
	if len(s.untold) == 0 {
		return nil
	}
	text := string(s.untold)
	s.untold, s.behind = nil, nil
	return s.send("stream", streamOf("stderr", text))
}

// ask takes the prompt of a question out of the text: the front end that is asked shows it.
func (s *script) ask(w timeline.InputRequested) {
	shown := w.Prompt != "" && bytes.HasSuffix(s.text, []byte(w.Prompt))
	if s.prompted = shown && s.turn.request == nil; shown && !s.prompted {
		s.text = s.text[:len(s.text)-len(w.Prompt)]
		s.lineEnds = w.Kind == timeline.InputKindSecret
	}
}

// change turns to another turn.
func (s *script) change(ctx context.Context, e timeline.Event) error {
	s.lineEnds = false
	err := s.flush(true)
	if err == nil && s.turn != nil {
		err = s.tell()
	}
	s.trace, s.untold, s.behind, s.died, s.held = nil, nil, nil, nil, nil
	if s.turn = s.life.turn(ctx, e.Turn, e.Seq); s.turn == nil {
		s.turn = &turn{number: e.Turn, parent: s.life.parentOf(e.Turn, ""), count: e.Turn, silent: e.Silent}
	}
	return err
}

// other sends the messages for an event that is not text.
func (s *script) other(ctx context.Context, e timeline.Event) error {
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return s.begin()
	case timeline.TurnEnded:
		return s.end(ctx, b)
	case timeline.Display:
		return s.display(b)
	case timeline.OutputCleared:
		return s.send("clear_output", map[string]bool{"wait": b.Wait})
	case timeline.InputLine:
		return s.input(b)
	case timeline.WorkerExited:
		s.died = &b
		if held := s.held; held != nil {
			s.held = nil
			return s.end(ctx, *held)
		}
		return nil
	case timeline.Notice, timeline.AccessDenied, timeline.AccessGranted, timeline.Limit, timeline.Gap, timeline.Omitted:
		text := strings.TrimRight(timeline.Render([]timeline.Event{e}, nil).Text(), "\n")
		if text == "" {
			return nil
		}
		return s.send("stream", streamOf("stderr", text+"\n"))
	}
	return nil
}

func (s *script) begin() error {
	t := s.turn
	if r := t.request; r == nil || !r.announced() {
		if err := s.send("status", status{"busy"}); err != nil {
			return err
		}
	}
	if t.silent {
		return nil
	}
	return s.send("execute_input", map[string]any{"code": t.code, "execution_count": t.count})
}

func (s *script) end(ctx context.Context, b timeline.TurnEnded) error {
	if b.Outcome == timeline.OutcomeEnded && s.died == nil {
		s.held = &b // The report of the worker's death follows.
		return nil
	}
	f := failureOf(b, s.trace, s.died)
	if f != nil {
		if err := s.send("error", f); err != nil {
			return err
		}
		s.untold = s.behind // such as the warnings "in addition"
	}
	if err := s.tell(); err != nil {
		return err
	}
	if r := s.turn.request; r != nil { // a client that takes this for the end must not be ahead of the reply
		select {
		case <-r.replied:
		case <-s.p.conn.Closed():
		case <-ctx.Done():
		}
	}
	return s.send("status", status{"idle"})
}

// input shows a line that somebody else gave. A front end shows the lines of its own user itself.
func (s *script) input(b timeline.InputLine) error {
	if s.turn.request != nil && b.Author == s.life.s.Author() {
		return nil
	}
	text := b.Text
	if b.Secret {
		text = "········"
	}
	if !s.prompted {
		text = b.Prompt + text
	}
	return s.send("stream", streamOf("stdout", text+"\n"))
}

// write collects text.
func (s *script) write(t timeline.Text) error {
	name := "stdout"
	if t.Stream == timeline.Stderr {
		name = "stderr"
	}
	if s.lineEnds && t.Kind == "" && len(t.Data) > 0 {
		s.lineEnds = false
		t.Data = bytes.TrimPrefix(t.Data, []byte("\n"))
	}
	switch t.Kind {
	case timeline.TextResult:
		if s.turn.silent {
			return nil
		}
		if err := s.tell(); err != nil {
			return err
		}
		if len(s.text) > 0 {
			if err := s.flush(true); err != nil {
				return err
			}
		}
		if len(s.echo) < maxEcho {
			s.echo = append(s.echo, t.Data...)
		}
		s.armed = true // a second result of the same value would be another output
		s.timer().Reset(echoTime)
		return nil
	case timeline.TextTraceback:
		if len(s.trace) < maxTraceback {
			s.trace = append(s.trace, t.Data...)
		}
		if err := s.flush(true); err != nil { // it came before
			return err
		}
		s.untold = append(s.untold, t.Data...)
		return s.bound()
	}
	if len(s.untold) > 0 && name == "stderr" {
		s.untold, s.behind = append(s.untold, t.Data...), append(s.behind, t.Data...)
		return s.bound()
	}
	if err := s.tell(); err != nil {
		return err
	}
	if len(s.echo) > 0 || name != s.stream && len(s.text) > 0 {
		if err := s.flush(true); err != nil {
			return err
		}
	}
	s.arm()
	s.stream, s.text = name, append(s.text, t.Data...)
	if len(s.text) >= maxText {
		return s.flush(false)
	}
	return nil
}

// bound tells what is too much to wait.
func (s *script) bound() error {
	if len(s.untold) < maxTraceback {
		return nil
	}
	return s.tell()
}

// flush sends the text that waits. Unless all has to go, the bytes of a character whose rest may
// be about to come stay.
func (s *script) flush(all bool) error {
	if len(s.echo) > 0 {
		return s.send("execute_result", map[string]any{
			"execution_count": s.turn.count, "data": map[string]string{"text/plain": s.taken()}, "metadata": struct{}{},
		})
	}
	n := len(s.text)
	if !all {
		n = whole(s.text)
	}
	if n == 0 {
		return nil
	}
	text := string(s.text[:n])
	s.text = append(s.text[:0], s.text[n:]...)
	return s.send("stream", streamOf(s.stream, text))
}

// whole is the length of text without a character at its end that is incomplete.
func whole(text []byte) int {
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

func streamOf(name, text string) map[string]string {
	return map[string]string{"name": name, "text": strings.ToValidUTF8(text, "\uFFFD")}
}

func (s *script) display(d timeline.Display) error {
	if s.turn.silent {
		return nil
	}
	kind := "display_data"
	if d.Update {
		kind = "update_display_data"
	}
	return s.send(kind, map[string]any{"data": bundle(d), "metadata": metadata(d), "transient": transient(d)})
}

// result sends the value of the turn, whose echo came before it.
func (s *script) result(d timeline.Display) error {
	if s.turn.silent {
		return nil
	}
	echo := s.taken()
	if err := s.flush(true); err != nil {
		return err
	}
	data := bundle(d)
	if _, ok := data["text/plain"]; !ok && echo != "" {
		data["text/plain"] = echo
	}
	return s.send("execute_result", map[string]any{
		"execution_count": s.turn.count, "data": data, "metadata": metadata(d), "transient": transient(d),
	})
}

// send sends a message of the turn.
func (s *script) send(kind string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	parent := s.turn.parent
	return s.p.send(note{parent: &parent, kind: kind, content: raw})
}

// A failure is the content of an error message.
type failure struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// failureOf says how a turn failed; nil if it did not.
func failureOf(b timeline.TurnEnded, trace []byte, died *timeline.WorkerExited) *failure {
	f := &failure{Name: b.Name, Value: b.Message}
	switch {
	case b.Outcome == timeline.OutcomeOK:
		return nil
	case b.Outcome == timeline.OutcomeEnded:
		f.Name = "WorkerEnded"
		if died != nil {
			f.Value = ending(died)
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

// ending says that a worker has ended.
func ending(died *timeline.WorkerExited) string {
	text := "the worker ended: " + died.Reason
	if died.Message != "" {
		text += ": " + died.Message
	}
	return text + "; the next cell starts a new one, without the variables"
}
