package timeline

import (
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// A logSnapshot is the state of a log after a cursor: events on disk, possibly a gap, then events
// in memory. Readers use it without holding the lock of the log.
type logSnapshot struct {
	after       Seq
	end         store.EventPosition // after the last event of the log
	memory      []store.Entry       // in memory, after the cursor
	memoryStart store.EventPosition // of the oldest event in memory, also before the cursor

	store.EventsView
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
	if after+1 >= l.end.Seq || after+1 == 0 {
		if !l.closed {
			v.moreEvents = waitChannel(&l.moreEvents)
		}
		return v
	}
	rest := l.memoryLocked(after+1, l.end.Seq)
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
		EventsView:    store.EventsView{DiskStart: l.diskStart, DiskEnd: l.diskEnd, Index: l.index, MaxTypeBytes: math.MaxInt64},
		outputLines:   l.outputLines,
		hasOutputFile: l.outputPathLocked() != "", isWriting: l.writingLocked(),
		missedBytes: l.bytesBeforeLocked(after + 1),
	}
	if l.opts.Dir != "" {
		v.EventsPath = filepath.Join(l.opts.Dir, EventsName)
	}
	if len(l.memory) > 0 {
		v.memoryStart = l.memory[0].Position
	}
	return v
}

// memoryLocked returns the events of [from, to) that are in memory.
func (l *Log) memoryLocked(from, to Seq) []store.Entry {
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
	if l.diskStart.Seq <= seq && seq < l.diskEnd.Seq {
		p, _ := l.index.FindLast(func(p store.EventPosition) bool { return p.Seq > seq })
		return p.BytesBefore
	}
	lost := l.lostEstimate.BytesBefore(seq)
	if seq >= l.diskEnd.Seq {
		lost = max(lost, l.diskEnd.BytesBefore)
	}
	return lost
}

// isEmpty reports whether there are no events after the cursor.
func (s *logSnapshot) isEmpty() bool {
	return s.moreEvents != nil || s.after+1 >= s.end.Seq || s.after+1 == 0
}

// forgetDisk reduces the snapshot to the events in memory.
func (s *logSnapshot) forgetDisk() { s.EventsPath, s.DiskStart = "", store.EventPosition{} }

// allEvents returns all events after the cursor.
func (s *logSnapshot) allEvents() []Event {
	var events []Event
	for e := range s.entriesFrom(s.after + 1) {
		events = append(events, e.Event)
	}
	return events
}

// entriesFrom yields the events from seq on, with a Gap for missing ones.
func (s *logSnapshot) entriesFrom(seq Seq) iter.Seq[store.Entry] {
	return func(yield func(store.Entry) bool) {
		missed := s.missedBytes
		if seq < s.DiskStart.Seq && s.DiskStart.Seq < s.memoryStart.Seq { // the files were restarted
			if !yield(s.gapEntry(seq, s.DiskStart, missed)) {
				return
			}
			seq, missed = s.DiskStart.Seq, s.DiskStart.BytesBefore
		}
		if seq < s.memoryStart.Seq && seq < s.DiskEnd.Seq {
			start, _ := s.Index.FindLast(func(p store.EventPosition) bool { return p.Seq > seq })
			whole := seq
			if s.skipUnread {
				whole = store.AfterAllEvents
			}
			for e, next := range s.ReadEvents(start, whole) {
				if e.Seq < seq {
					continue
				}
				if e.Seq >= s.memoryStart.Seq {
					break
				}
				if !yield(e) {
					return
				}
				seq, missed = next.Seq, next.BytesBefore
			}
		}
		if seq < s.memoryStart.Seq {
			if !yield(s.gapEntry(seq, s.memoryStart, missed)) {
				return
			}
			seq = s.memoryStart.Seq
		}
		for _, e := range s.memory {
			if e.Seq >= seq && !yield(e) {
				return
			}
		}
	}
}

// gapEntry returns a Gap for the events from seq to the one before next.
func (s *logSnapshot) gapEntry(seq Seq, next store.EventPosition, missed int64) store.Entry {
	last := next.Seq - 1
	g := store.Entry{Position: next}
	g.Position.Seq, g.Position.BytesBefore = seq, missed
	g.Seq = last
	g.Body = Gap{From: seq, To: last, Bytes: next.BytesBefore - missed}
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
		v := store.EventsView{EventsPath: path, DiskEnd: store.EventPosition{Offset: i.Size()}, MaxTypeBytes: math.MaxInt64}
		for e := range v.ReadEvents(store.EventPosition{Seq: v.FirstSeq(), LastStructural: -1}, 0) {
			if !yield(e.Event) {
				return
			}
		}
	}
}

// entriesFromCost yields the events from a cost on. It may start with a few earlier events.
func (s *logSnapshot) entriesFromCost(cost int64) iter.Seq[store.Entry] {
	if cost >= s.memoryStart.CostBefore {
		i := sort.Search(len(s.memory), func(i int) bool { return s.memory[i].Position.CostBefore > cost })
		return slices.Values(s.memory[max(0, i-1):])
	}
	seq := s.after + 1
	if p, ok := s.Index.FindLast(func(p store.EventPosition) bool { return p.CostBefore > cost }); ok {
		for e, next := range s.ReadEvents(p, store.AfterAllEvents) {
			if p = e.Position; next.CostBefore > cost {
				break
			}
		}
		seq = max(seq, p.Seq)
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
	to = min(to, s.memoryStart.Seq, s.DiskEnd.Seq)
	if from < to && len(found) < limit {
		found = s.StructuralOnDisk(found, from, to, limit)
	}
	slices.Reverse(found)
	return found
}
