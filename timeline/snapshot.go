package timeline

import (
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// A logSnapshot is the state of a log after a cursor: events on disk, possibly a gap, then
// events in memory. It is read without holding the log's lock.
type logSnapshot struct {
	after       Seq
	end         eventPosition // after the last event of the log
	memory      []entry       // in memory, after the cursor
	memoryStart eventPosition // of the oldest event in memory, also before the cursor

	eventsView
	outputLines int // in output.txt

	hasOutputFile bool // there is an output file to which line numbers refer
	isWriting     bool // events are still being written to it

	missedBytes int64           // bytes before the first lost event, or before the cursor
	moreEvents  <-chan struct{} // closed by the next event; nil if none will come, or if the snapshot has events

	skipUnread bool // large data of displays on disk is not needed at all
}

// takeSnapshot takes a snapshot with at most limit events from memory; 0 means all.
func (l *Log) takeSnapshot(after Seq, limit int) logSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.snapshotLocked(after)
	if after+1 >= l.end.seq || after+1 == 0 {
		if !l.closed {
			v.moreEvents = waitChannel(&l.moreEvents)
		}
		return v
	}
	rest := l.memoryLocked(after+1, l.end.seq)
	if limit > 0 && len(rest) > limit {
		rest = rest[:limit]
	}
	v.memory = slices.Clone(rest)
	return v
}

// snapshotLocked takes a snapshot without events from memory.
func (l *Log) snapshotLocked(after Seq) logSnapshot {
	v := logSnapshot{
		after: after, end: l.end, memoryStart: l.end,
		eventsView:    eventsView{diskStart: l.diskStart, diskEnd: l.diskEnd, index: l.index, maxTypeBytes: math.MaxInt64},
		outputLines:   l.outputLines,
		hasOutputFile: l.outputPathLocked() != "", isWriting: l.writingLocked(),
		missedBytes: l.bytesBeforeLocked(after + 1),
	}
	if l.opts.Dir != "" {
		v.eventsPath = filepath.Join(l.opts.Dir, EventsName)
	}
	if len(l.memory) > 0 {
		v.memoryStart = l.memory[0].position
	}
	return v
}

// memoryLocked returns the events of [from, to) that are in memory.
func (l *Log) memoryLocked(from, to Seq) []entry {
	if len(l.memory) == 0 {
		return nil
	}
	first := l.memory[0].Seq
	if from = max(from, first); from >= to {
		return nil
	}
	return l.memory[from-first : to-first]
}

// bytesBeforeLocked returns roughly how many bytes came before seq, based on the nearest
// recorded position before it.
func (l *Log) bytesBeforeLocked(seq Seq) int64 {
	if l.diskStart.seq <= seq && seq < l.diskEnd.seq {
		p, _ := l.index.findLast(func(p eventPosition) bool { return p.seq > seq })
		return p.bytesBefore
	}
	lost := l.lostEstimate.bytesBefore(seq)
	if seq >= l.diskEnd.seq {
		lost = max(lost, l.diskEnd.bytesBefore)
	}
	return lost
}

// isEmpty reports whether there are no events after the cursor.
func (s *logSnapshot) isEmpty() bool {
	return s.moreEvents != nil || s.after+1 >= s.end.seq || s.after+1 == 0
}

// forgetDisk reduces the snapshot to the events in memory.
func (s *logSnapshot) forgetDisk() { s.eventsPath, s.diskStart = "", eventPosition{} }

// allEvents returns all events after the cursor.
func (s *logSnapshot) allEvents() []Event {
	var events []Event
	for e := range s.entriesFrom(s.after + 1) {
		events = append(events, e.Event)
	}
	return events
}

// entriesFrom yields the events from seq on, with a Gap for missing ones.
func (s *logSnapshot) entriesFrom(seq Seq) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		missed := s.missedBytes
		if seq < s.diskStart.seq && s.diskStart.seq < s.memoryStart.seq { // the files were restarted
			if !yield(s.gapEntry(seq, s.diskStart, missed)) {
				return
			}
			seq, missed = s.diskStart.seq, s.diskStart.bytesBefore
		}
		if seq < s.memoryStart.seq && seq < s.diskEnd.seq {
			start, _ := s.index.findLast(func(p eventPosition) bool { return p.seq > seq })
			whole := seq
			if s.skipUnread {
				whole = afterAllEvents
			}
			for e, next := range s.readEvents(start, whole) {
				if e.Seq < seq {
					continue
				}
				if e.Seq >= s.memoryStart.seq {
					break
				}
				if !yield(e) {
					return
				}
				seq, missed = next.seq, next.bytesBefore
			}
		}
		if seq < s.memoryStart.seq {
			if !yield(s.gapEntry(seq, s.memoryStart, missed)) {
				return
			}
			seq = s.memoryStart.seq
		}
		for _, e := range s.memory {
			if e.Seq >= seq && !yield(e) {
				return
			}
		}
	}
}

// gapEntry returns a Gap for the events from seq to the one before next.
func (s *logSnapshot) gapEntry(seq Seq, next eventPosition, missed int64) entry {
	last := next.seq - 1
	g := entry{position: next}
	g.position.seq, g.position.bytesBefore = seq, missed
	g.Seq = last
	g.Body = Gap{From: seq, To: last, Bytes: next.bytesBefore - missed}
	if len(s.memory) > 0 {
		e := &s.memory[0]
		g.At, g.Generation, g.Turn, g.BetweenTurns = e.At, e.Generation, e.Turn, e.BetweenTurns
	}
	return g
}

// ReadFile yields the events from the file in a directory whose Log was not closed because its
// program was killed. It ends at the last record, which may be incomplete, or where the file
// cannot be read.
func ReadFile(dir string) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		path := filepath.Join(dir, EventsName)
		i, err := os.Lstat(path)
		if err != nil || !i.Mode().IsRegular() {
			return
		}
		v := eventsView{eventsPath: path, diskEnd: eventPosition{offset: i.Size()}, maxTypeBytes: math.MaxInt64}
		for e := range v.readEvents(eventPosition{seq: v.firstSeq(), lastStructural: -1}, 0) {
			if !yield(e.Event) {
				return
			}
		}
	}
}

// entriesFromCost yields the events from a cost on. It may start with a few earlier events.
func (s *logSnapshot) entriesFromCost(cost int64) iter.Seq[entry] {
	if cost >= s.memoryStart.costBefore {
		i := sort.Search(len(s.memory), func(i int) bool { return s.memory[i].position.costBefore > cost })
		return slices.Values(s.memory[max(0, i-1):])
	}
	seq := s.after + 1
	if p, ok := s.index.findLast(func(p eventPosition) bool { return p.costBefore > cost }); ok {
		for e, next := range s.readEvents(p, afterAllEvents) {
			if p = e.position; next.costBefore > cost {
				break
			}
		}
		seq = max(seq, p.seq)
	}
	return s.entriesFrom(seq)
}

// structuralEvents returns the newest limit of the structural events in [from, to).
func (s *logSnapshot) structuralEvents(from, to Seq, limit int) []Event {
	var found []Event // newest first
	for _, e := range slices.Backward(s.memory) {
		if len(found) < limit && e.Seq >= from && e.Seq < to && event.IsStructural(e.Body) {
			found = append(found, e.Event)
		}
	}
	to = min(to, s.memoryStart.seq, s.diskEnd.seq)
	if from < to && len(found) < limit {
		found = s.structuralOnDisk(found, from, to, limit)
	}
	slices.Reverse(found)
	return found
}
