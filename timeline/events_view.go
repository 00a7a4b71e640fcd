package timeline

import (
	"bufio"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// An eventsView is the part of the events file that was written at one time. Its methods read it
// while the log continues; a file that was restarted since has nothing for them.
type eventsView struct {
	eventsPath string        // of the events file; "" without one
	diskStart  eventPosition // of the oldest event on disk
	diskEnd    eventPosition // after the last event on disk
	index      index

	maxTypeBytes int64 // display types with more bytes may be left out
}

// afterAllEvents is a cursor after every event.
const afterAllEvents = ^Seq(0)

// readEvents yields the events on disk from a position on, each with the position after it.
// Events before whole may have unread data. It ends early if the file cannot be read.
func (v *eventsView) readEvents(p eventPosition, whole Seq) iter.Seq2[entry, eventPosition] {
	return func(yield func(entry, eventPosition) bool) {
		if v.eventsPath == "" || p.seq == 0 {
			return
		}
		f, err := v.openEventsFile()
		if err != nil {
			return
		}
		defer f.Close()
		for e, next := range v.readFileEvents(f, p) {
			if e.Seq >= whole {
				if e.Event, err = event.WithFullData(e.Event, v.fileSection(f), v.maxTypeBytes); err != nil {
					return
				}
			}
			if !yield(e, next) {
				return
			}
		}
	}
}

// readFileEvents yields the events of a file from a position on, each with the position after
// it. Their large data may be unread.
func (v *eventsView) readFileEvents(f *os.File, p eventPosition) iter.Seq2[entry, eventPosition] {
	return func(yield func(entry, eventPosition) bool) {
		left := v.diskEnd.offset - p.offset
		r := bufio.NewReaderSize(io.NewSectionReader(f, p.offset, left), 64<<10)
		for left > 0 {
			e, _, size, err := event.ReadRecord(r, left)
			if err != nil || e.Seq != p.seq {
				return
			}
			next := p.afterEvent(e, size)
			if !yield(entry{e, p}, next) {
				return
			}
			p = next
			left -= size
		}
	}
}

// fileSection returns the part of the events file that the snapshot covers.
func (v *eventsView) fileSection(f *os.File) *io.SectionReader {
	return io.NewSectionReader(f, 0, v.diskEnd.offset)
}

// openEventsFile opens the events file if it is still the one of the snapshot. A file that was
// restarted since is shorter for a long time.
func (v *eventsView) openEventsFile() (*os.File, error) {
	f, err := os.Open(v.eventsPath)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err != nil || i.Size() < v.diskEnd.offset {
		f.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return f, nil
}

// firstSeq returns the number of the first event in the file, 0 if there is none.
func (v *eventsView) firstSeq() Seq {
	f, err := v.openEventsFile()
	if err != nil {
		return 0
	}
	defer f.Close()
	e, _, _, err := event.ReadRecord(bufio.NewReader(f), v.diskEnd.offset)
	if err != nil {
		return 0
	}
	return e.Seq
}

// structuralOnDisk reads the last stretch of the file, and from there follows the chain of
// structural records backwards.
func (v *eventsView) structuralOnDisk(found []Event, from, to Seq, limit int) []Event {
	start, ok := v.index.findLast(func(p eventPosition) bool { return p.seq >= to })
	if !ok {
		return found
	}
	var last []Event
	for e := range v.readEvents(start, afterAllEvents) {
		if e.Seq >= to {
			break
		}
		if e.Seq >= from && event.IsStructural(e.Body) {
			last = append(last, e.Event)
		}
	}
	for _, e := range slices.Backward(last) {
		if len(found) < limit {
			found = append(found, e)
		}
	}
	f, err := v.openEventsFile()
	if err != nil {
		return found
	}
	defer f.Close()
	for offset := start.lastStructural; offset >= 0 && len(found) < limit; {
		left := v.diskEnd.offset - offset
		r := bufio.NewReaderSize(io.NewSectionReader(f, offset, left), 512)
		e, previous, _, err := event.ReadRecord(r, left)
		if err != nil || e.Seq < from || previous >= offset {
			break
		}
		found = append(found, e)
		offset = previous
	}
	return found
}

// diskEntriesBefore returns the last events on disk before seq, about 64 KiB of them. Their
// large data may be unread.
func (v *eventsView) diskEntriesBefore(f *os.File, seq Seq) []entry {
	start, ok := v.index.findLast(func(p eventPosition) bool { return p.seq >= seq })
	if !ok {
		return nil
	}
	var part []entry
	for e := range v.readFileEvents(f, start) {
		if e.Seq >= seq {
			break
		}
		part = append(part, e)
	}
	if n := len(part); n == 0 || part[n-1].Seq != seq-1 {
		return nil // the file was restarted in the meantime
	}
	return part
}
