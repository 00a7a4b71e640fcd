package timeline

import (
	"bytes"
	"time"
	"unicode/utf8"
)

const (
	// maxStructural bounds the structural events of the middle that a Window keeps.
	maxStructural = 200

	// From the cost lineNumbersFrom on, some events of a Window may get elided. So it
	// waits until the writer has given them line numbers, lineNumbersStall at most.
	lineNumbersFrom  = 16 << 10
	lineNumbersStall = 250 * time.Millisecond
)

// Window returns the events after the cursor, about headBytes of the oldest and
// tailBytes of the newest. An event counts 16 bytes more than it has; a picture
// counts 2 KiB and a 64th of its size, and is never cut. Inputs and
// the messages of errors count nothing.
//
// The events between them become one Elided, and one Gap for those that are not in the
// files. Text is cut at the end of a line if there is one nearby. The newest 200
// structural events of the middle, which are all but Text and Display, follow the Elided.
// The Seq of the last event returned is the new cursor.
// The time this takes does not depend on how much is left out.
func (l *Log) Window(after Seq, headBytes, tailBytes int) []Event {
	l.peek()
	v := l.view(after, 0)
	if v.empty() {
		return nil
	}
	first := v.first()
	if v.writing && v.end.cost-first.at.cost > lineNumbersFrom && v.disk.seq < v.end.seq {
		l.sync(lineNumbersStall)
		v = l.view(after, 0)
	}
	headEnd := first.at.cost + int64(max(0, headBytes))
	tailStart := v.end.cost - int64(max(0, tailBytes))
	if headEnd >= tailStart {
		return v.events()
	}
	head := v.head(headEnd, int64(headBytes/4))
	tail := v.tail(tailStart, int64(tailBytes/4))
	if !head.before(tail) {
		return v.events()
	}

	var out []Event
	for _, e := range head.list[:head.i] {
		out = append(out, e.Event)
	}
	if head.n > 0 {
		e := head.entry()
		e.Body = e.Body.(Text).part(0, head.n)
		out = append(out, e.Event)
	}
	out = append(out, v.middle(head, tail)...)
	if tail.i == len(tail.list) {
		return out
	}
	e := tail.entry()
	if tail.n > 0 {
		e.Line = tail.line()
		e.Body = e.Body.(Text).part(tail.n, len(e.Body.(Text).Data))
	}
	out = append(out, e.Event)
	for _, e := range tail.list[tail.i+1:] {
		out = append(out, e.Event)
	}
	return out
}

// first returns the first event after the cursor.
func (v *view) first() entry {
	for e := range v.walk(v.after + 1) {
		return e
	}
	return entry{at: v.end}
}

// part returns the bytes from..to of a text.
func (t Text) part(from, to int) Text {
	t.Data = t.Data[from:to]
	return t
}

// A cut is a position in a list of events: before byte n of the text of list[i].
// If i is len(list), it is after the last event.
type cut struct {
	list    []entry
	i, n    int
	newline bool // right after a newline
	end     place
}

func (c cut) entry() entry { return c.list[c.i] }

// at returns the place of the event that is cut.
func (c cut) at() place {
	if c.i == len(c.list) {
		return c.end
	}
	return c.list[c.i].at
}

func (c cut) before(d cut) bool {
	a, b := c.at().seq, d.at().seq
	return a < b || a == b && c.n < d.n
}

// bytes returns the number of bytes of text and displays before it.
func (c cut) bytes() int64 { return c.at().bytes + int64(c.n) }

// line returns its line in the output file, 0 if unknown.
func (c cut) line() int {
	if c.i == len(c.list) || c.list[c.i].Line == 0 {
		return 0
	}
	line := c.list[c.i].Line
	if t, ok := c.list[c.i].Body.(Text); ok {
		line += bytes.Count(t.Data[:c.n], newline)
	}
	return line
}

// normal returns the same position, as one before an event if it is after the last byte
// of another.
func (c cut) normal() cut {
	if t, ok := c.list[c.i].Body.(Text); ok && c.n == len(t.Data) {
		c.i, c.n = c.i+1, 0
	}
	return c
}

// head finds the end of the head: after the last newline before a cost, unless that is
// more than slack before it.
func (v *view) head(cost, slack int64) cut {
	c := cut{end: v.end}
	for e := range v.walk(v.after + 1) {
		c.list = append(c.list, e)
		if e.at.cost >= cost {
			break
		}
		c.i = len(c.list)
	}
	if c.i == 0 {
		return c
	}
	last := c.list[c.i-1]
	if t, ok := last.Body.(Text); ok && int64(len(t.Data)) > cost-last.at.cost {
		c.i, c.n = c.i-1, runeStart(t.Data, int(cost-last.at.cost))
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
		if e.at.cost+int64(n) < cost-slack {
			break
		}
		if n > 0 {
			return cut{list: c.list, i: i, n: n, newline: true, end: v.end}.normal()
		}
	}
	return c
}

// tail finds the beginning of the tail: after the first newline after a cost, unless
// that is more than slack after it.
func (v *view) tail(cost, slack int64) cut {
	c := cut{end: v.end}
	for e := range v.walkCost(cost) {
		if len(c.list) > 0 || v.costAfter(e) > cost {
			c.list = append(c.list, e)
		}
	}
	if len(c.list) == 0 {
		return c
	}
	first := c.list[0]
	if t, ok := first.Body.(Text); ok && first.at.cost < cost {
		c.n = runeStart(t.Data, min(len(t.Data), int(cost-first.at.cost)))
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
		if e.at.cost+int64(from) > cost+slack {
			break
		}
		n := from + bytes.IndexByte(t.Data[from:], '\n') + 1
		if n > from && e.at.cost+int64(n) <= cost+slack {
			return cut{list: c.list, i: i, n: n, newline: true, end: v.end}.normal()
		}
	}
	return c
}

// costAfter returns the cost of everything up to an entry.
func (v *view) costAfter(e entry) int64 {
	if _, ok := e.Body.(Gap); ok {
		return e.at.cost
	}
	return e.at.cost + cost(e.Body)
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

// middle returns the events that replace those between two cuts.
func (v *view) middle(head, tail cut) []Event {
	from, to := head.at(), tail.at()
	last := to.seq - 1 // the last event that is left out or cut
	if tail.n > 0 {
		last = to.seq
	}
	kept := v.structural(from.seq, to.seq, maxStructural)

	elided := Elided{From: from.seq, To: last, Bytes: tail.bytes() - head.bytes()}
	var gap *Gap
	if v.path == "" || v.writing || to.seq < v.disk.seq || v.disk.seq == v.end.seq {
		last, newline := tail.line(), tail.newline
		if tail.i == len(tail.list) && v.disk.seq == v.end.seq {
			last, newline = v.lines, false
		}
		elided.FirstLine, elided.LastLine = v.lineRange(head, last, newline)
	} else {
		// The files end in the middle.
		gap = &Gap{From: max(from.seq, v.disk.seq), To: last}
		gap.Bytes = tail.bytes() - max(head.bytes(), v.disk.bytes)
		elided.To = gap.From - 1
		elided.Bytes -= gap.Bytes
		elided.FirstLine, elided.LastLine = v.lineRange(head, v.lines, false)
	}

	next := v.memory[len(v.memory)-1]
	if tail.i < len(tail.list) {
		next = tail.entry()
	}
	stamp := Event{At: next.At, Generation: next.Generation, Turn: next.Turn, Between: next.Between}
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
	out[len(out)-1].Seq = last // there is no tail: this is where the reader goes on
	return out
}

// lineRange returns the lines from a cut to line last, or to the line before it if the
// second cut is right after a newline.
func (v *view) lineRange(head cut, last int, newline bool) (int, int) {
	first := head.line()
	if !v.named || first == 0 || last == 0 {
		return 0, 0
	}
	if newline {
		last--
	}
	return first, max(first, last)
}
