package timeline

import (
	"io"
	"iter"
	"os"
	"slices"
)

// A Span is a part of a log to read: the events after the cursor After and before the event
// Before, which is the end of the log when it is 0. Of these a read returns the oldest, or
// with Backward the newest, as many as its bounds allow, but one at least.
type Span struct {
	After, Before Seq
	Backward      bool
	Limit         int   // events
	Bytes         int64 // about the most of text and data that is returned
	Part          int64 // a picture with more bytes is left out
}

// maxReadBack bounds the bytes of events that one Read takes from the file, beyond its last.
const maxReadBack = 64 << 20

// Read returns a part of the log, in order. Events that are lost are a Gap. However a log is
// read in parts, each from where the one before ended, they are together what Follow yields:
// the next part forward begins after the Seq of the last event, and the next part backward
// before the Seq of the first, or From if that is a Gap.
//
// It reads from the file about what it returns, and 64 KiB more.
func (l *Log) Read(s Span) []Event {
	l.peek()
	r := reading{span: s, left: s.Bytes, raw: maxReadBack}
	if s.Backward {
		l.readBackward(&r)
		slices.Reverse(r.events)
	} else {
		l.readForward(&r)
	}
	stampGaps(r.events)
	return r.events
}

// A reading is a Read under way.
type reading struct {
	span   Span
	events []Event
	left   int64 // of the bytes
	raw    int64 // of the bytes from the file
}

// take adds an event, and reports whether there may be more.
func (r *reading) take(e Event) bool {
	r.raw -= payloadBytes(e.Body)
	e = e.LeaveOut(r.span.Part)
	r.left -= payloadBytes(e.Body)
	if r.left < 0 && len(r.events) > 0 {
		return false
	}
	r.events = append(r.events, e)
	return len(r.events) < r.span.Limit && r.left > 0 && r.raw > 0
}

// LeaveOut returns the event without the types of a display that have more than limit bytes.
func (e Event) LeaveOut(limit int64) Event {
	if d, ok := e.Body.(Display); ok {
		e.Body = d.without(func(_ string, data []byte) bool { return int64(len(data)) > limit })
	}
	return e
}

func (l *Log) readForward(r *reading) {
	v := l.view(r.span.After, r.span.Limit)
	if v.empty() {
		return
	}
	v.most = r.span.Part
	for e := range v.walk(r.span.After + 1) {
		if g, lost := e.Body.(Gap); lost && r.span.Before > 0 && g.From < r.span.Before && g.To >= r.span.Before {
			g.To = r.span.Before - 1
			e.Seq, e.Body = g.To, g
		}
		if r.span.Before > 0 && e.Seq >= r.span.Before || !r.take(e.Event) {
			return
		}
	}
}

func (l *Log) readBackward(r *reading) {
	low, pos := r.span.After+1, l.Last()+1
	if r.span.Before > 0 {
		pos = min(pos, r.span.Before)
	}
	v := l.viewBefore(r.span.After, pos, r.span.Limit)
	v.most = r.span.Part
	for e := range v.walkBack(low, pos) {
		if !r.take(e.Event) {
			return
		}
	}
}

// walkBack yields the events from low to the one before pos, the newest first, with a Gap for
// missing ones.
func (v *view) walkBack(low, pos Seq) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for low < pos {
			next, going := v.stepBack(low, pos, yield)
			if !going {
				return
			}
			pos = next
		}
	}
}

// stepBack yields some of the last events before pos. It returns where they begin, and whether
// more are wanted.
func (v *view) stepBack(low, pos Seq, yield func(entry) bool) (Seq, bool) {
	var part []entry
	var file *io.SectionReader
	switch {
	case pos > v.from.seq:
		part = v.memory
	case pos > v.begin.seq && pos <= v.disk.seq:
		if f, err := v.open(); err == nil {
			defer f.Close()
			part, file = v.stretchBefore(f, pos), v.section(f)
		}
	}
	begun := pos
	for _, e := range slices.Backward(part) {
		if e.Seq < low {
			return low, false
		}
		var err error
		if file != nil {
			e.Event, err = e.together(file, v.most) // one after the other, since together they may be too much
		}
		if err != nil {
			break
		}
		if !yield(e) {
			return e.Seq, false
		}
		pos = e.Seq
	}
	if pos < begun {
		return pos, true
	}
	lost := v.gapBefore(low, pos)
	return lost.Body.(Gap).From, yield(lost)
}

// viewBefore makes a view that has the newest limit of the events in memory that come after
// one cursor and before the other.
func (l *Log) viewBefore(after, before Seq, limit int) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.viewLocked(after)
	rest := l.memoryLocked(after+1, before)
	v.memory = slices.Clone(rest[max(0, len(rest)-limit):])
	return v
}

// stretchBefore returns the last events on disk before seq: about 64 KiB of them, and data of them
// may be apart.
func (v *view) stretchBefore(f *os.File, seq Seq) []entry {
	start, ok := v.index.seek(func(p place) bool { return p.seq >= seq })
	if !ok {
		return nil
	}
	var part []entry
	for e := range v.replayFile(f, start) {
		if e.Seq >= seq {
			break
		}
		part = append(part, e)
	}
	if n := len(part); n == 0 || part[n-1].Seq != seq-1 {
		return nil // the file has begun anew meanwhile
	}
	return part
}

// gapBefore stands for the lost events from low, or from the last that is not lost, to the one
// before seq.
func (v *view) gapBefore(low, seq Seq) entry {
	from, missed := low, v.missed
	if seq > v.disk.seq && low < v.disk.seq && v.begin.seq < v.disk.seq {
		from, missed = v.disk.seq, v.disk.bytes
	}
	next := place{seq: seq, bytes: missed}
	switch seq {
	case v.from.seq:
		next = v.from
	case v.begin.seq:
		next = v.begin
	}
	return v.gap(from, next, missed)
}

// stampGaps gives each gap the turn of the event after it.
func stampGaps(events []Event) {
	for i := len(events) - 2; i >= 0; i-- {
		if _, lost := events[i].Body.(Gap); lost {
			next := events[i+1]
			events[i].At, events[i].Generation, events[i].Turn, events[i].Between = next.At, next.Generation, next.Turn, next.Between
		}
	}
}
