package export

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// maxTurn bounds the text and the pictures of one turn that are kept, in bytes. The file says
// how much was left out.
const maxTurn = 16 << 20

// A Session has the facts about a session beside its events.
type Session struct {
	Name     string
	Runtime  string // the version of its language; may be ""
	Language Language

	// Whole reads data that its events name only, when the file comes to it. It returns nil for
	// data that is not kept any more. A nil Whole is for events that have all data.
	Whole func(timeline.Blob) ([]byte, error)
}

// complete returns a display with the data that was left out of it, as far as that is kept.
func (s Session) complete(d timeline.Display) (timeline.Display, error) {
	data, left := make(map[string][]byte, len(d.Data)), make(map[string]timeline.Blob)
	maps.Copy(data, d.Data)
	for mime, b := range d.Omitted {
		if b.Digest == "" || s.Whole == nil {
			left[mime] = b
			continue
		}
		whole, err := s.Whole(b)
		switch {
		case err != nil:
			return d, err
		case whole == nil:
			left[mime] = timeline.Blob{Bytes: b.Bytes}
		default:
			data[mime] = whole
		}
	}
	d.Data, d.Omitted = data, left
	return d, nil
}

// A Language has the facts that files of one language need.
type Language struct {
	Display   string // "Python"
	Extension string // of a script, and the name of that format: "py"
	Comment   string // what begins one: "#"

	// Kernel is the name of its usual Jupyter kernel, and JupyterName the name of the
	// language there.
	Kernel, JupyterName string
}

// The formats that every language has. That of a script is named by its extension.
const (
	Notebook   = "ipynb"
	Transcript = "txt"
)

// Formats returns the formats for a session of the language; the first is the default.
func (l Language) Formats() []string { return []string{l.Extension, Notebook, Transcript} }

// Write writes a session in a format. The error is that of w, or says that the format is
// unknown.
func Write(w io.Writer, format string, s Session, events iter.Seq[timeline.Event]) error {
	at := slices.IndexFunc(s.Language.Formats(), func(f string) bool { return strings.EqualFold(f, format) })
	if at < 0 {
		return fmt.Errorf("a session in %s is written as %s, not as %q", s.Language.Display, strings.Join(s.Language.Formats(), ", "), format)
	}
	var p page
	out := &errWriter{w: w}
	switch s.Language.Formats()[at] {
	case Notebook:
		p = &notebook{out: out, session: s}
	case Transcript:
		p = &transcript{out: out, session: s}
	default:
		p = &script{out: out, session: s}
	}
	p.begin()
	c := collector{page: p}
	for e := range events {
		c.take(e)
		if out.err != nil {
			return out.err
		}
	}
	c.flush()
	p.end()
	return out.err
}

// A page is a file that is written from its beginning to its end.
type page interface {
	begin()
	turn(t *turn)
	note(text string) // an event outside of turns
	end()
}

// errWriter remembers the first error, and writes nothing after it.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) print(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

func (w *errWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// A turn is one input with its result.
type turn struct {
	number uint64
	author string
	input  string
	bytes  int // of the whole input, of which input may be the beginning

	ended   *timeline.TurnEnded // nil while it runs
	answers []timeline.InputLine
	events  []timeline.Event // its output
	kept    int64            // bytes in events
	dropped int64            // bytes that were too much
}

// failure says why the input must not be run again; "" when it may.
func (t *turn) failure() string {
	switch {
	case t.bytes > len(t.input):
		return fmt.Sprintf("is %d bytes long, of which only the beginning was kept", t.bytes)
	case t.ended == nil:
		return "was not over"
	case t.ended.Outcome == timeline.OutcomeOK:
		return ""
	case t.ended.Outcome == timeline.OutcomeError:
		text := "failed"
		if t.ended.Name != "" {
			text += ": " + t.ended.Name
		}
		if first, _, _ := strings.Cut(t.ended.Message, "\n"); first != "" {
			text += ": " + first
		}
		return text
	case t.ended.Outcome == timeline.OutcomeInterrupted:
		return "was interrupted"
	}
	return "was ended with the runtime"
}

// title names the turn.
func (t *turn) title() string {
	text := "turn " + strconv.FormatUint(t.number, 10)
	if t.author != "" {
		text += " by " + t.author
	}
	return text
}

// asked returns the lines of input that the turn has read.
func (t *turn) asked() (lines []string) {
	for _, a := range t.answers {
		given := strconv.Quote(a.Text)
		if a.Secret {
			given = "a secret"
		}
		lines = append(lines, fmt.Sprintf("it asked %q and was given %s", a.Prompt, given))
	}
	return lines
}

// A collector groups events into turns.
type collector struct {
	page page
	now  *turn // the last turn, to which more may be added
}

func (c *collector) take(e timeline.Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		c.flush()
		c.now = &turn{number: e.Turn, author: b.Author, input: string(b.Input), bytes: b.InputBytes}
	case timeline.TurnEnded:
		if c.now != nil && c.now.number == e.Turn {
			c.now.ended = &b
			c.show(e, 0)
		} else if e.Turn > 0 { // turn 0 is a start: it has no input
			c.note(fmt.Sprintf("the input of turn %d is lost", e.Turn))
		}
	case timeline.InputLine:
		if c.now != nil {
			c.now.answers = append(c.now.answers, b)
			c.show(e, int64(len(b.Prompt)+len(b.Text)))
		}
	case timeline.Text:
		c.show(e, int64(len(b.Data)))
	case timeline.Display:
		size := b.TotalBytes()
		for _, left := range b.Omitted {
			if left.Digest != "" {
				size += left.Bytes
			}
		}
		c.show(e, size)
	case timeline.Gap:
		c.note(fmt.Sprintf("events %d to %d are lost, with %d bytes of output: what happened there is not in this file", b.From, b.To, b.Bytes))
	case timeline.WorkerExited:
		c.note("the runtime ended: " + b.Reason)
	case timeline.WorkerStarted:
		if e.Generation > 1 {
			c.note("the runtime was started anew, without what it had in memory")
		}
	}
}

// show keeps an event of the turn, as long as there is room.
func (c *collector) show(e timeline.Event, size int64) {
	if c.now == nil {
		c.now = &turn{} // for output of a start
	}
	if c.now.kept+size > maxTurn {
		c.now.dropped += size
		return
	}
	c.now.kept += size
	c.now.events = append(c.now.events, e)
}

func (c *collector) note(text string) {
	c.flush()
	c.page.note(text)
}

func (c *collector) flush() {
	if c.now != nil {
		c.page.turn(c.now)
	}
	c.now = nil
}

// left says which part of a turn is missing; "" when none is.
func (t *turn) left() string {
	if t.dropped == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes of output more are left out", t.dropped)
}
