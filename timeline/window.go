package timeline

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

const (
	// maxStructural bounds the structural events that a Window keeps from its omitted middle.
	maxStructural = 200

	// From the cost minLineNumberCost on, a Window may omit events. It then waits, at most for
	// lineNumberTimeout, until the writer has given the events line numbers.
	minLineNumberCost = 16 << 10
	lineNumberTimeout = 250 * time.Millisecond
)

// Window returns the events after the cursor, about headBytes of the oldest and tailBytes of the
// newest. An event counts 16 bytes more than its content. An image counts 2 KiB and a 64th of its
// size, and is never cut. Inputs and error messages count nothing.
//
// The events in between become one Omitted, and one Gap for those that are not in the files.
// Text is cut at the end of a line if there is one nearby. The newest 200 structural events of
// the middle, that is all but Text and Display, follow the Omitted. The Seq of the last event
// returned is the new cursor. The running time does not depend on how much is left out.
func (l *Log) Window(after Seq, headBytes, tailBytes int) []Event {
	l.appendPending()
	v := l.takeSnapshot(after, 0)
	if v.isEmpty() {
		return nil
	}
	first := v.firstEntry()
	if v.isWriting && v.end.CostBefore-first.Position.CostBefore > minLineNumberCost && v.DiskEnd.Seq < v.end.Seq {
		l.syncWithin(lineNumberTimeout)
		v = l.takeSnapshot(after, 0)
	}
	headEnd := first.Position.CostBefore + int64(max(0, headBytes))
	tailStart := v.end.CostBefore - int64(max(0, tailBytes))
	if headEnd >= tailStart {
		return v.allEvents()
	}
	head := v.findHeadEnd(headEnd, int64(headBytes/4))
	tail := v.findTailStart(tailStart, int64(tailBytes/4))
	if !head.isBefore(tail) {
		return v.allEvents()
	}

	var out []Event
	for _, e := range head.list[:head.i] {
		out = append(out, e.Event)
	}
	if head.n > 0 {
		e := head.currentEntry()
		e.Body = sliceText(e.Body.(Text), 0, head.n)
		out = append(out, e.Event)
	}
	out = append(out, v.middleReplacement(head, tail)...)
	if tail.i == len(tail.list) {
		return out
	}
	e := tail.currentEntry()
	if tail.n > 0 {
		e.Line = tail.lineNumber()
		e.Body = sliceText(e.Body.(Text), tail.n, len(e.Body.(Text).Data))
	}
	out = append(out, e.Event)
	for _, e := range tail.list[tail.i+1:] {
		out = append(out, e.Event)
	}
	return out
}

// firstEntry returns the first event after the cursor.
func (s *logSnapshot) firstEntry() store.Entry {
	for e := range s.entriesFrom(s.after + 1) {
		return e
	}
	return store.Entry{Position: s.end}
}

// sliceText returns the bytes from..to of a text.
func sliceText(t Text, from, to int) Text {
	t.Data, t.Begins = t.Data[from:to], t.Begins && from == 0
	return t
}

// An eventOffset is a position in a list of events: before byte n of the text of list[i].
// If i is len(list), it is after the last event.
type eventOffset struct {
	list    []store.Entry
	i, n    int
	newline bool // right after a newline
	end     store.EventPosition
}

func (o eventOffset) currentEntry() store.Entry { return o.list[o.i] }

// position returns the position of the event that is cut.
func (o eventOffset) position() store.EventPosition {
	if o.i == len(o.list) {
		return o.end
	}
	return o.list[o.i].Position
}

func (o eventOffset) isBefore(d eventOffset) bool {
	a, b := o.position().Seq, d.position().Seq
	return a < b || a == b && o.n < d.n
}

// bytesBefore returns the number of bytes of text and displays before the offset.
func (o eventOffset) bytesBefore() int64 { return o.position().BytesBefore + int64(o.n) }

// lineNumber returns the line in the output file at the offset, 0 if unknown.
func (o eventOffset) lineNumber() int {
	if o.i == len(o.list) || o.list[o.i].Line == 0 {
		return 0
	}
	line := o.list[o.i].Line
	if t, ok := o.list[o.i].Body.(Text); ok {
		line += bytes.Count(t.Data[:o.n], newline)
	}
	return line
}

// normalize returns the same position, as the start of an event if it is after the last byte of
// the event before.
func (o eventOffset) normalize() eventOffset {
	if t, ok := o.list[o.i].Body.(Text); ok && o.n == len(t.Data) {
		o.i, o.n = o.i+1, 0
	}
	return o
}

// findHeadEnd returns the end of the head: after the last newline before a cost, unless that
// newline is more than slack before it.
func (s *logSnapshot) findHeadEnd(cost, slack int64) eventOffset {
	c := eventOffset{end: s.end}
	for e := range s.entriesFrom(s.after + 1) {
		c.list = append(c.list, e)
		if e.Position.CostBefore >= cost {
			break
		}
		c.i = len(c.list)
	}
	if c.i == 0 {
		return c
	}
	last := c.list[c.i-1]
	if t, ok := last.Body.(Text); ok && int64(len(t.Data)) > cost-last.Position.CostBefore {
		c.i, c.n = c.i-1, runeStart(t.Data, int(cost-last.Position.CostBefore))
	}
	for i := min(c.i, len(c.list)-1); i >= 0; i-- {
		e := c.list[i]
		t, ok := e.Body.(Text)
		if !ok {
			if _, picture := e.Body.(Display); picture && i < c.i {
				break
			}
			continue
		}
		data := t.Data
		if i == c.i {
			data = data[:c.n]
		}
		n := bytes.LastIndexByte(data, '\n') + 1
		if e.Position.CostBefore+int64(n) < cost-slack {
			break
		}
		if n > 0 {
			return eventOffset{list: c.list, i: i, n: n, newline: true, end: s.end}.normalize()
		}
	}
	return c
}

// findTailStart returns the beginning of the tail: after the first newline after a cost, unless
// that newline is more than slack after it.
func (s *logSnapshot) findTailStart(cost, slack int64) eventOffset {
	c := eventOffset{end: s.end}
	for e := range s.entriesFromCost(cost) {
		if len(c.list) > 0 || s.costAfter(e) > cost {
			c.list = append(c.list, e)
		}
	}
	if len(c.list) == 0 {
		return c
	}
	first := c.list[0]
	if t, ok := first.Body.(Text); ok && first.Position.CostBefore < cost {
		c.n = runeStart(t.Data, min(len(t.Data), int(cost-first.Position.CostBefore)))
	}
	for i, e := range c.list {
		t, ok := e.Body.(Text)
		if !ok {
			if _, picture := e.Body.(Display); picture {
				break
			}
			continue
		}
		from := 0
		if i == 0 {
			from = c.n
		}
		if e.Position.CostBefore+int64(from) > cost+slack {
			break
		}
		n := from + bytes.IndexByte(t.Data[from:], '\n') + 1
		if n > from && e.Position.CostBefore+int64(n) <= cost+slack {
			return eventOffset{list: c.list, i: i, n: n, newline: true, end: s.end}.normalize()
		}
	}
	return c
}

// costAfter returns the cost of everything up to an entry.
func (s *logSnapshot) costAfter(e store.Entry) int64 {
	if _, ok := e.Body.(Gap); ok {
		return e.Position.CostBefore
	}
	return e.Position.CostBefore + event.WindowCost(e.Body)
}

// runeStart returns the beginning of the character at n.
func runeStart(data []byte, n int) int {
	for back := 0; back < utf8.UTFMax-1 && n-back > 0 && n < len(data); back++ {
		if utf8.RuneStart(data[n-back]) {
			return n - back
		}
	}
	return n
}

// middleReplacement returns the events that replace the omitted middle between head and tail.
func (s *logSnapshot) middleReplacement(head, tail eventOffset) []Event {
	from, to := head.position(), tail.position()
	last := to.Seq - 1 // the last event that is omitted or cut
	if tail.n > 0 {
		last = to.Seq
	}
	kept := s.structuralEvents(from.Seq, to.Seq, maxStructural)

	elided := Omitted{From: from.Seq, To: last, Bytes: tail.bytesBefore() - head.bytesBefore()}
	var gap *Gap
	if s.EventsPath == "" || s.isWriting || to.Seq < s.DiskEnd.Seq || s.DiskEnd.Seq == s.end.Seq {
		last, newline := tail.lineNumber(), tail.newline
		if tail.i == len(tail.list) && s.DiskEnd.Seq == s.end.Seq {
			last, newline = s.outputLines, false
		}
		elided.FirstLine, elided.LastLine = s.lineRange(head, last, newline)
	} else {
		// The files end in the middle.
		gap = &Gap{From: max(from.Seq, s.DiskEnd.Seq), To: last}
		gap.Bytes = tail.bytesBefore() - max(head.bytesBefore(), s.DiskEnd.BytesBefore)
		elided.To = gap.From - 1
		elided.Bytes -= gap.Bytes
		elided.FirstLine, elided.LastLine = s.lineRange(head, s.outputLines, false)
	}

	next := s.memory[len(s.memory)-1]
	if tail.i < len(tail.list) {
		next = tail.currentEntry()
	}
	stamp := Event{At: next.At, Generation: next.Generation, Turn: next.Turn, BetweenTurns: next.BetweenTurns}
	var out []Event
	if n := int(elided.To) - int(elided.From) + 1; n > 0 && (elided.Bytes > 0 || n > len(kept)) {
		stamp.Seq, stamp.Body = elided.From, elided
		out = append(out, stamp)
	}
	if gap != nil {
		stamp.Seq, stamp.Body = gap.From, *gap
		out = append(out, stamp)
	}
	if tail.i < len(tail.list) {
		return append(out, kept...)
	}
	out = append(kept, out...)
	out[len(out)-1].Seq = last // there is no tail: the reader continues here
	return out
}

// lineRange returns the range of lines from head to line last, or to the line before it if the
// tail begins right after a newline.
func (s *logSnapshot) lineRange(head eventOffset, last int, newline bool) (int, int) {
	first := head.lineNumber()
	if !s.hasOutputFile || first == 0 || last == 0 {
		return 0, 0
	}
	if newline {
		last--
	}
	return first, max(first, last)
}
