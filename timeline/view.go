package timeline

import (
	"bufio"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
)

// A view is a snapshot of a log after a cursor: events on disk, perhaps a gap, then
// events in memory. It is read without the log's lock.
type view struct {
	after  Seq
	end    place   // after the last event of the log
	memory []entry // in memory, after the cursor
	from   place   // of the oldest event in memory, also before the cursor

	path  string // of the events file; "" without one
	begin place  // of the oldest event on disk
	disk  place  // after the last event on disk
	index index
	lines int // in output.txt

	named   bool // there is an output file whose lines can be named
	writing bool // events are still being written to it

	missed int64           // bytes before the first lost event, or before the cursor
	more   <-chan struct{} // closed by the next event; nil if none will come, or if the view has some

	most  int64 // types of displays on disk that have more bytes may be left out
	apart bool  // large data of displays on disk is not wanted at all
}

// view makes a view with at most limit events from memory; 0 means all.
func (l *Log) view(after Seq, limit int) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.viewLocked(after)
	if after+1 >= l.end.seq || after+1 == 0 {
		if !l.closed {
			v.more = waiter(&l.more)
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

// viewLocked makes a view without events from memory.
func (l *Log) viewLocked(after Seq) view {
	v := view{
		after: after, end: l.end, from: l.end,
		begin: l.oldest, disk: l.disk, index: l.index, lines: l.lines,
		named: l.outputPathLocked() != "", writing: l.writingLocked(),
		missed: l.bytesBeforeLocked(after + 1), most: math.MaxInt64,
	}
	if l.opts.Dir != "" {
		v.path = filepath.Join(l.opts.Dir, EventsName)
	}
	if len(l.memory) > 0 {
		v.from = l.memory[0].at
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

// bytesBeforeLocked returns roughly how many bytes came before seq, by the nearest place
// before it.
func (l *Log) bytesBeforeLocked(seq Seq) int64 {
	if l.oldest.seq <= seq && seq < l.disk.seq {
		p, _ := l.index.seek(func(p place) bool { return p.seq > seq })
		return p.bytes
	}
	lost := l.lost.bytesBefore(seq)
	if seq >= l.disk.seq {
		lost = max(lost, l.disk.bytes)
	}
	return lost
}

// empty reports whether there is nothing after the cursor.
func (v *view) empty() bool { return v.more != nil || v.after+1 >= v.end.seq || v.after+1 == 0 }

// forgetDisk reduces the view to the events in memory.
func (v *view) forgetDisk() { v.path, v.begin = "", place{} }

// events returns everything after the cursor.
func (v *view) events() []Event {
	var events []Event
	for e := range v.walk(v.after + 1) {
		events = append(events, e.Event)
	}
	return events
}

// walk yields the events from seq on, with a Gap for missing ones.
func (v *view) walk(seq Seq) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		missed := v.missed
		if seq < v.begin.seq && v.begin.seq < v.from.seq { // the files have begun anew
			if !yield(v.gap(seq, v.begin, missed)) {
				return
			}
			seq, missed = v.begin.seq, v.begin.bytes
		}
		if seq < v.from.seq && seq < v.disk.seq {
			start, _ := v.index.seek(func(p place) bool { return p.seq > seq })
			whole := seq
			if v.apart {
				whole = nowhere
			}
			for e, next := range v.replay(start, whole) {
				if e.Seq < seq {
					continue
				}
				if e.Seq >= v.from.seq {
					break
				}
				if !yield(e) {
					return
				}
				seq, missed = next.seq, next.bytes
			}
		}
		if seq < v.from.seq {
			if !yield(v.gap(seq, v.from, missed)) {
				return
			}
			seq = v.from.seq
		}
		for _, e := range v.memory {
			if e.Seq >= seq && !yield(e) {
				return
			}
		}
	}
}

// gap stands for the events from seq to the one at next.
func (v *view) gap(seq Seq, next place, missed int64) entry {
	last := next.seq - 1
	g := entry{at: next}
	g.at.seq, g.at.bytes = seq, missed
	g.Seq = last
	g.Body = Gap{From: seq, To: last, Bytes: next.bytes - missed}
	if len(v.memory) > 0 {
		e := &v.memory[0]
		g.At, g.Generation, g.Turn, g.Between = e.At, e.Generation, e.Turn, e.Between
	}
	return g
}

// nowhere is behind every event.
const nowhere = ^Seq(0)

// replay yields the events on disk from a place on, each with the place after it. Those before
// whole may have data that is apart. It ends early if the file cannot be read.
func (v *view) replay(p place, whole Seq) iter.Seq2[entry, place] {
	return func(yield func(entry, place) bool) {
		if v.path == "" || p.seq == 0 {
			return
		}
		f, err := v.open()
		if err != nil {
			return
		}
		defer f.Close()
		for e, next := range v.replayFile(f, p) {
			if e.Seq >= whole {
				if e.Event, err = e.together(v.section(f), v.most); err != nil {
					return
				}
			}
			if !yield(e, next) {
				return
			}
		}
	}
}

// replayFile yields the events of a file from a place on, each with the place after it. They may
// have data that is apart.
func (v *view) replayFile(f *os.File, p place) iter.Seq2[entry, place] {
	return func(yield func(entry, place) bool) {
		left := v.disk.offset - p.offset
		r := bufio.NewReaderSize(io.NewSectionReader(f, p.offset, left), 64<<10)
		for left > 0 {
			e, _, size, err := readRecord(r, left)
			if err != nil || e.Seq != p.seq {
				return
			}
			next := p.after(e, size)
			if !yield(entry{e, p}, next) {
				return
			}
			p = next
			left -= size
		}
	}
}

// section returns what the view knows of the events file.
func (v *view) section(f *os.File) *io.SectionReader { return io.NewSectionReader(f, 0, v.disk.offset) }

// open opens the events file if it is still the one that the view knows. A file that has
// begun anew since is shorter, for a long time.
func (v *view) open() (*os.File, error) {
	f, err := os.Open(v.path)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err != nil || i.Size() < v.disk.offset {
		f.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return f, nil
}

// ReadFile yields the events from the file in a directory whose Log was not closed
// because its program was killed. It ends at the last record, which may be incomplete,
// or where the file cannot be read.
func ReadFile(dir string) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		path := filepath.Join(dir, EventsName)
		i, err := os.Lstat(path)
		if err != nil || !i.Mode().IsRegular() {
			return
		}
		v := view{path: path, disk: place{offset: i.Size()}, most: math.MaxInt64}
		for e := range v.replay(place{seq: v.firstSeq(), structural: -1}, 0) {
			if !yield(e.Event) {
				return
			}
		}
	}
}

// firstSeq returns the number of the first event in the file, 0 if there is none.
func (v *view) firstSeq() Seq {
	f, err := v.open()
	if err != nil {
		return 0
	}
	defer f.Close()
	e, _, _, err := readRecord(bufio.NewReader(f), v.disk.offset)
	if err != nil {
		return 0
	}
	return e.Seq
}

// walkCost yields the events from a cost on. It may begin with some that come before.
func (v *view) walkCost(cost int64) iter.Seq[entry] {
	if cost >= v.from.cost {
		i := sort.Search(len(v.memory), func(i int) bool { return v.memory[i].at.cost > cost })
		return slices.Values(v.memory[max(0, i-1):])
	}
	seq := v.after + 1
	if p, ok := v.index.seek(func(p place) bool { return p.cost > cost }); ok {
		for e, next := range v.replay(p, nowhere) {
			if p = e.at; next.cost > cost {
				break
			}
		}
		seq = max(seq, p.seq)
	}
	return v.walk(seq)
}

// structural returns the events of [from, to) that are neither text nor pictures,
// the newest limit of them.
func (v *view) structural(from, to Seq, limit int) []Event {
	var found []Event // newest first
	for _, e := range slices.Backward(v.memory) {
		if len(found) < limit && e.Seq >= from && e.Seq < to && structural(e.Body) {
			found = append(found, e.Event)
		}
	}
	to = min(to, v.from.seq, v.disk.seq)
	if from < to && len(found) < limit {
		found = v.structuralOnDisk(found, from, to, limit)
	}
	slices.Reverse(found)
	return found
}

// structuralOnDisk reads the last stretch, and from there follows the chain of
// structural records backwards through the file.
func (v *view) structuralOnDisk(found []Event, from, to Seq, limit int) []Event {
	start, ok := v.index.seek(func(p place) bool { return p.seq >= to })
	if !ok {
		return found
	}
	var last []Event
	for e := range v.replay(start, nowhere) {
		if e.Seq >= to {
			break
		}
		if e.Seq >= from && structural(e.Body) {
			last = append(last, e.Event)
		}
	}
	for _, e := range slices.Backward(last) {
		if len(found) < limit {
			found = append(found, e)
		}
	}
	f, err := v.open()
	if err != nil {
		return found
	}
	defer f.Close()
	for offset := start.structural; offset >= 0 && len(found) < limit; {
		left := v.disk.offset - offset
		r := bufio.NewReaderSize(io.NewSectionReader(f, offset, left), 512)
		e, previous, _, err := readRecord(r, left)
		if err != nil || e.Seq < from || previous >= offset {
			break
		}
		found = append(found, e)
		offset = previous
	}
	return found
}
