package sessions

import (
	"bytes"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxWindows bounds how many windows of events are read for one screen, because most may show
// nothing.
const maxWindows = 8

// reservedRows leaves room for the notice above, the greeting and the prompt.
const reservedRows = 4

// A screenful is the last part of a session's events that fits a screen.
type screenful struct {
	after timeline.Seq   // cursor before the events; 0 is the beginning of the session
	first timeline.Event // the event after it, cut to the part that fits; no body if all of it fits
}

// lastScreen finds the last screenful of a session. If the daemon cannot read backwards, it is the
// whole session.
func lastScreen(ctx context.Context, s session.Session, size session.Size) screenful {
	f := rowCounter{cols: max(int(size.Cols), 1), rows: max(int(size.Rows)-reservedRows, 1)}
	q := session.ReadQuery{Backward: true, Bytes: int64(4 * f.cols * f.rows)}
	for range maxWindows {
		p, err := s.Read(ctx, q)
		if err != nil {
			return screenful{}
		}
		for _, e := range slices.Backward(p.Events) {
			if first, full := f.add(e); full {
				return screenful{after: max(e.Seq, 1) - 1, first: first}
			}
		}
		if !p.HasEarlier {
			return screenful{}
		}
		q.Before = p.First
	}
	return screenful{after: max(q.Before, 1) - 1}
}

// trimEvent returns an event of a screenful. The first one is cut to the part that fits.
func (s screenful) trimEvent(e timeline.Event) timeline.Event {
	if s.first.Body != nil && e.Seq == s.first.Seq {
		return s.first
	}
	return e
}

// A rowCounter counts the rows that events fill, starting with the last event.
type rowCounter struct {
	cols, rows int
	textBelow  bool // the event below is text, which an unfinished line continues in the same row
}

// add adds an event. When the screen is full, it returns only the part of the event that fits.
func (c *rowCounter) add(e timeline.Event) (fits timeline.Event, full bool) {
	if e.IsUnseen() {
		return e, false
	}
	text, isText := e.Body.(timeline.Text)
	switch {
	case isText && c.textBelow && len(text.Data) > 0 && !bytes.HasSuffix(text.Data, []byte("\n")):
		c.rows++
	case c.rows <= 0:
		e.Body = timeline.Text{}
		return e, true
	}
	c.textBelow = isText
	switch b := e.Body.(type) {
	case timeline.Text:
		b.Data = c.fitTail(b.Data)
		e.Body = b
		if len(b.Data) == len(text.Data) {
			return e, false // the event above may begin its first line
		}
	case timeline.TurnStarted:
		b.Input = c.fitTail(b.Input)
		e.Body = b
	case timeline.Display:
		if _, _, ok := b.ImageData(); ok {
			c.rows -= 2 // at least
			break
		}
		c.fitTail([]byte(b.Text()))
	case timeline.Notice, timeline.InputLine, timeline.Interrupt, timeline.Limit, timeline.AccessDenied, timeline.AccessGranted, timeline.Gap, timeline.WorkerExited:
		c.rows--
	}
	return e, c.rows <= 0
}

// fitTail returns the last lines of text that fit.
func (c *rowCounter) fitTail(text []byte) []byte {
	rest := len(text)
	for rest > 0 && c.rows > 0 {
		line := text[bytes.LastIndexByte(text[:rest-1], '\n')+1 : rest]
		if room := c.cols * c.rows; len(line) > room {
			line = line[len(line)-room:]
			for len(line) > 0 && !utf8.RuneStart(line[0]) {
				line = line[1:]
			}
			c.rows, rest = 0, rest-len(line)
			break
		}
		c.rows -= max(1, (len(line)+c.cols-1)/c.cols)
		rest -= len(line)
	}
	return text[rest:]
}
