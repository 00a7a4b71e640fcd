package timeline

import (
	"io"
	"iter"
	"slices"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// A ReadRange selects the events after the cursor After and before the event Before; 0 means
// the end of the log. A read returns the oldest of them, or with Backward the newest: as many
// as its bounds allow, but at least one.
type ReadRange struct {
	After, Before Seq
	Backward      bool
	MaxEvents     int   // maximum number of events
	MaxBytes      int64 // approximate maximum of text and data
	MaxTypeBytes  int64 // a display type with more bytes is left out
}

// maxRawReadBytes bounds the bytes of events that one Read takes from the file, excluding its
// last event.
const maxRawReadBytes = 64 << 20

// Read returns a part of the log, in order, with a Gap for lost events. Successive parts, each
// from where the previous one ended, add up to what Follow yields. The next part forward begins
// after the Seq of the last event. The next part backward begins before the Seq of the first
// event, or before From if that is a Gap.
//
// Read takes from the file about as much as it returns, plus 64 KiB.
func (l *Log) Read(s ReadRange) []Event {
	l.appendPending()
	r := rangeReader{readRange: s, bytesLeft: s.MaxBytes, rawBytesLeft: maxRawReadBytes}
	if s.Backward {
		l.readBackward(&r)
		slices.Reverse(r.events)
	} else {
		l.readForward(&r)
	}
	stampGaps(r.events)
	return r.events
}

// A rangeReader is the state of a running Read.
type rangeReader struct {
	readRange    ReadRange
	events       []Event
	bytesLeft    int64 // of ReadRange.MaxBytes
	rawBytesLeft int64 // of maxRawReadBytes
}

// addEvent adds an event and reports whether there is room for more.
func (r *rangeReader) addEvent(e Event) bool {
	r.rawBytesLeft -= event.PayloadBytes(e.Body)
	e = e.StripData(r.readRange.MaxTypeBytes)
	r.bytesLeft -= event.PayloadBytes(e.Body)
	if r.bytesLeft < 0 && len(r.events) > 0 {
		return false
	}
	r.events = append(r.events, e)
	return len(r.events) < r.readRange.MaxEvents && r.bytesLeft > 0 && r.rawBytesLeft > 0
}

func (l *Log) readForward(r *rangeReader) {
	v := l.takeSnapshot(r.readRange.After, r.readRange.MaxEvents)
	if v.isEmpty() {
		return
	}
	v.MaxTypeBytes = r.readRange.MaxTypeBytes
	for e := range v.entriesFrom(r.readRange.After + 1) {
		if g, lost := e.Body.(Gap); lost && r.readRange.Before > 0 && g.From < r.readRange.Before && g.To >= r.readRange.Before {
			g.To = r.readRange.Before - 1
			e.Seq, e.Body = g.To, g
		}
		if r.readRange.Before > 0 && e.Seq >= r.readRange.Before || !r.addEvent(e.Event) {
			return
		}
	}
}

func (l *Log) readBackward(r *rangeReader) {
	low, pos := r.readRange.After+1, l.LastSeq()+1
	if r.readRange.Before > 0 {
		pos = min(pos, r.readRange.Before)
	}
	v := l.snapshotBefore(r.readRange.After, pos, r.readRange.MaxEvents)
	v.MaxTypeBytes = r.readRange.MaxTypeBytes
	for e := range v.entriesBackward(low, pos) {
		if !r.addEvent(e.Event) {
			return
		}
	}
}

// entriesBackward yields the events from low to the last one before pos, the newest first, with
// a Gap for missing ones.
func (s *logSnapshot) entriesBackward(low, pos Seq) iter.Seq[store.Entry] {
	return func(yield func(store.Entry) bool) {
		for low < pos {
			next, going := s.stepBack(low, pos, yield)
			if !going {
				return
			}
			pos = next
		}
	}
}

// stepBack yields some of the last events before pos. It returns the position of the oldest of
// them, and whether the caller wants more.
func (s *logSnapshot) stepBack(low, pos Seq, yield func(store.Entry) bool) (Seq, bool) {
	var part []store.Entry
	var file *io.SectionReader
	switch {
	case pos > s.memoryStart.Seq:
		part = s.memory
	case pos > s.DiskStart.Seq && pos <= s.DiskEnd.Seq:
		if f, err := s.OpenEventsFile(); err == nil {
			defer f.Close()
			part, file = s.DiskEntriesBefore(f, pos), s.FileSection(f)
		}
	}
	start := pos
	for _, e := range slices.Backward(part) {
		if e.Seq < low {
			return low, false
		}
		var err error
		if file != nil {
			e.Event, err = event.WithFullData(e.Event, file, s.MaxTypeBytes) // one at a time, since together they may be too large
		}
		if err != nil {
			break
		}
		if !yield(e) {
			return e.Seq, false
		}
		pos = e.Seq
	}
	if pos < start {
		return pos, true
	}
	lost := s.gapBefore(low, pos)
	return lost.Body.(Gap).From, yield(lost)
}

// snapshotBefore takes a snapshot with the newest limit of the events in memory between the two
// cursors.
func (l *Log) snapshotBefore(after, before Seq, limit int) logSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.snapshotLocked(after)
	rest := l.memoryLocked(after+1, before)
	v.memory = slices.Clone(rest[max(0, len(rest)-limit):])
	return v
}

// gapBefore returns a Gap for the lost events before seq, back to low or to the last event that
// is not lost.
func (s *logSnapshot) gapBefore(low, seq Seq) store.Entry {
	from, missed := low, s.missedBytes
	if seq > s.DiskEnd.Seq && low < s.DiskEnd.Seq && s.DiskStart.Seq < s.DiskEnd.Seq {
		from, missed = s.DiskEnd.Seq, s.DiskEnd.BytesBefore
	}
	next := store.EventPosition{Seq: seq, BytesBefore: missed}
	switch seq {
	case s.memoryStart.Seq:
		next = s.memoryStart
	case s.DiskStart.Seq:
		next = s.DiskStart
	}
	return s.gapEntry(from, next, missed)
}

// stampGaps gives each Gap the turn of the event that follows.
func stampGaps(events []Event) {
	for i := len(events) - 2; i >= 0; i-- {
		if _, lost := events[i].Body.(Gap); lost {
			next := events[i+1]
			events[i].At, events[i].Generation, events[i].Turn, events[i].BetweenTurns = next.At, next.Generation, next.Turn, next.BetweenTurns
		}
	}
}
