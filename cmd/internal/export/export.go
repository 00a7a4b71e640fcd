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

// maxTurnBytes bounds the stored text and images of one turn, in bytes. The file says how much was
// left out.
const maxTurnBytes = 16 << 20

// A SessionFacts holds the facts about a session that its events do not contain.
type SessionFacts struct {
	Name     string
	Runtime  string // the version of its language; may be ""
	Language NotebookLanguage

	// FetchBlob reads data that its events only reference, when the file reaches it. It returns nil
	// for data that is no longer stored. A nil FetchBlob is for events that contain all data.
	FetchBlob func(timeline.Blob) ([]byte, error)
}

// completeDisplay adds the referenced data to a display, as far as it is still stored.
func (s SessionFacts) completeDisplay(d timeline.Display) (timeline.Display, error) {
	data, left := make(map[string][]byte, len(d.Data)), make(map[string]timeline.Blob)
	maps.Copy(data, d.Data)
	for mime, b := range d.Omitted {
		if b.Digest == "" || s.FetchBlob == nil {
			left[mime] = b
			continue
		}
		complete, err := s.FetchBlob(b)
		switch {
		case err != nil:
			return d, err
		case complete == nil:
			left[mime] = timeline.Blob{Bytes: b.Bytes}
		default:
			data[mime] = complete
		}
	}
	d.Data, d.Omitted = data, left
	return d, nil
}

// A NotebookLanguage holds the properties of a language that its files need.
type NotebookLanguage struct {
	Display   string // "Python"
	Extension string // of a script, and the name of that format: "py"
	Comment   string // starts a comment: "#"

	// Kernel is the name of its default Jupyter kernel, and JupyterName the name of the language in
	// Jupyter.
	Kernel, JupyterName string
}

// Formats that every language has. The script format is named by its extension.
const (
	Notebook   = "ipynb"
	Transcript = "txt"
)

// Formats returns the formats for a session of the language; the first is the default.
func (l NotebookLanguage) Formats() []string { return []string{l.Extension, Notebook, Transcript} }

// Write writes a session in a format. It returns the error of w, or an error if the format is
// unknown.
func Write(w io.Writer, format string, s SessionFacts, events iter.Seq[timeline.Event]) error {
	at := slices.IndexFunc(s.Language.Formats(), func(f string) bool { return strings.EqualFold(f, format) })
	if at < 0 {
		return fmt.Errorf("unknown format %[3]q for a session in %[1]s; use one of: %[2]s", s.Language.Display, strings.Join(s.Language.Formats(), ", "), format)
	}
	var p formatWriter
	out := &errWriter{w: w}
	switch s.Language.Formats()[at] {
	case Notebook:
		p = &notebookWriter{out: out, session: s}
	case Transcript:
		p = &transcriptWriter{out: out, session: s}
	default:
		p = &scriptWriter{out: out, session: s}
	}
	p.beginDocument()
	c := turnCollector{writer: p}
	for e := range events {
		c.addEvent(e)
		if out.err != nil {
			return out.err
		}
	}
	c.flushTurn()
	p.endDocument()
	return out.err
}

// A formatWriter writes a file of one format from start to end.
type formatWriter interface {
	beginDocument()
	writeTurn(t *exportedTurn)
	writeNote(text string) // an event outside turns
	endDocument()
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

func (w *errWriter) setError(err error) {
	if w.err == nil {
		w.err = err
	}
}

// An exportedTurn holds an input with its result and output.
type exportedTurn struct {
	number uint64
	author string
	input  string
	bytes  int // of the whole input, of which input may be the start

	ended        *timeline.TurnEnded // nil while the turn runs
	answers      []timeline.InputLine
	events       []timeline.Event // its output
	eventBytes   int64            // bytes in events
	droppedBytes int64            // bytes beyond maxTurnBytes
}

// failureNote says why the input must not be run again, or returns "".
func (t *exportedTurn) failureNote() string {
	switch {
	case t.bytes > len(t.input):
		return fmt.Sprintf("is %d bytes long; only the beginning was stored", t.bytes)
	case t.ended == nil:
		return "was still running"
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
	return "ended with the runtime"
}

// turnTitle returns the turn's number and author.
func (t *exportedTurn) turnTitle() string {
	text := "turn " + strconv.FormatUint(t.number, 10)
	if t.author != "" {
		text += " by " + t.author
	}
	return text
}

// answerLines describes the lines of input that the turn has read.
func (t *exportedTurn) answerLines() (lines []string) {
	for _, a := range t.answers {
		answer := strconv.Quote(a.Text)
		if a.Secret {
			answer = "a secret"
		}
		lines = append(lines, fmt.Sprintf("it asked %q and was given %s", a.Prompt, answer))
	}
	return lines
}

// A turnCollector groups the events of a session into turns.
type turnCollector struct {
	writer  formatWriter
	current *exportedTurn // the last turn, which may get more events
}

func (c *turnCollector) addEvent(e timeline.Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		c.flushTurn()
		c.current = &exportedTurn{number: e.Turn, author: b.Author, input: string(b.Input), bytes: b.InputBytes}
	case timeline.TurnEnded:
		if c.current != nil && c.current.number == e.Turn {
			c.current.ended = &b
			c.keepEvent(e, 0)
		} else if e.Turn > 0 { // turn 0 is a start: it has no input
			c.writeNote(fmt.Sprintf("the input of turn %d is lost", e.Turn))
		}
	case timeline.InputLine:
		if c.current != nil {
			c.current.answers = append(c.current.answers, b)
			c.keepEvent(e, int64(len(b.Prompt)+len(b.Text)))
		}
	case timeline.Text:
		c.keepEvent(e, int64(len(b.Data)))
	case timeline.Display:
		size := b.TotalBytes()
		for _, left := range b.Omitted {
			if left.Digest != "" {
				size += left.Bytes
			}
		}
		c.keepEvent(e, size)
	case timeline.Gap:
		c.writeNote(fmt.Sprintf("events %d to %d were lost with %d bytes of output and are missing from this file", b.From, b.To, b.Bytes))
	case timeline.WorkerExited:
		c.writeNote("the runtime ended: " + b.Reason)
	case timeline.WorkerStarted:
		if e.Generation > 1 {
			c.writeNote("the runtime was restarted and its state was lost")
		}
	}
}

// keepEvent stores an event of the turn, as long as there is room.
func (c *turnCollector) keepEvent(e timeline.Event, size int64) {
	if c.current == nil {
		c.current = &exportedTurn{} // for output of a start
	}
	if c.current.eventBytes+size > maxTurnBytes {
		c.current.droppedBytes += size
		return
	}
	c.current.eventBytes += size
	c.current.events = append(c.current.events, e)
}

func (c *turnCollector) writeNote(text string) {
	c.flushTurn()
	c.writer.writeNote(text)
}

func (c *turnCollector) flushTurn() {
	if c.current != nil {
		c.writer.writeTurn(c.current)
	}
	c.current = nil
}

// omissionNote says which part of a turn is missing, or returns "".
func (t *exportedTurn) omissionNote() string {
	if t.droppedBytes == 0 {
		return ""
	}
	return fmt.Sprintf("%d more bytes of output are left out", t.droppedBytes)
}
