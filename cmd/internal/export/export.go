package export

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

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
			c.current.addAnswer(b)
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
		c.current = &exportedTurn{} // a turn for the output of a start
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
