package store

import (
	"bufio"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// An EventsView is the part of the events file that was written at one time. Its methods read it
// while the log continues. If the file was restarted in the meantime, they find nothing.
type EventsView struct {
	EventsPath string        // of the events file; "" without one
	DiskStart  EventPosition // of the oldest event on disk
	DiskEnd    EventPosition // after the last event on disk
	Index      Index

	MaxTypeBytes int64 // display types with more bytes may be left out
}

// AfterAllEvents is a cursor after every event.
const AfterAllEvents = ^event.Seq(0)

// ReadEvents yields the events on disk from a position on, each with the position after it.
// Events before whole may have unread data. It ends early if the file cannot be read.
func (v *EventsView) ReadEvents(p EventPosition, whole event.Seq) iter.Seq2[Entry, EventPosition] {
	return func(yield func(Entry, EventPosition) bool) {
		if v.EventsPath == "" || p.Seq == 0 {
			return
		}
		f, err := v.OpenEventsFile()
		if err != nil {
			return
		}
		defer f.Close()
		for e, next := range v.readFileEvents(f, p) {
			if e.Seq >= whole {
				if e.Event, err = event.WithFullData(e.Event, v.FileSection(f), v.MaxTypeBytes); err != nil {
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
func (v *EventsView) readFileEvents(f *os.File, p EventPosition) iter.Seq2[Entry, EventPosition] {
	return func(yield func(Entry, EventPosition) bool) {
		left := v.DiskEnd.Offset - p.Offset
		r := bufio.NewReaderSize(io.NewSectionReader(f, p.Offset, left), 64<<10)
		for left > 0 {
			e, _, size, err := event.ReadRecord(r, left)
			if err != nil || e.Seq != p.Seq {
				return
			}
			next := p.AfterEvent(e, size)
			if !yield(Entry{e, p}, next) {
				return
			}
			p = next
			left -= size
		}
	}
}

// FileSection returns the part of the events file that the view covers.
func (v *EventsView) FileSection(f *os.File) *io.SectionReader {
	return io.NewSectionReader(f, 0, v.DiskEnd.Offset)
}

// OpenEventsFile opens the events file if it is still the one of the view. A file that was
// restarted since is shorter for a long time.
func (v *EventsView) OpenEventsFile() (*os.File, error) {
	f, err := os.Open(v.EventsPath)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err != nil || i.Size() < v.DiskEnd.Offset {
		f.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return f, nil
}

// FirstSeq returns the number of the first event in the file, 0 if there is none.
func (v *EventsView) FirstSeq() event.Seq {
	f, err := v.OpenEventsFile()
	if err != nil {
		return 0
	}
	defer f.Close()
	e, _, _, err := event.ReadRecord(bufio.NewReader(f), v.DiskEnd.Offset)
	if err != nil {
		return 0
	}
	return e.Seq
}

// StructuralOnDisk reads the last stretch of the file, and from there follows the chain of
// structural records backwards.
func (v *EventsView) StructuralOnDisk(found []event.Event, from, to event.Seq, limit int) []event.Event {
	start, ok := v.Index.FindLast(func(p EventPosition) bool { return p.Seq >= to })
	if !ok {
		return found
	}
	var last []event.Event
	for e := range v.ReadEvents(start, AfterAllEvents) {
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
	f, err := v.OpenEventsFile()
	if err != nil {
		return found
	}
	defer f.Close()
	for offset := start.LastStructural; offset >= 0 && len(found) < limit; {
		left := v.DiskEnd.Offset - offset
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

// DiskEntriesBefore returns the last events on disk before seq, about 64 KiB of them. Their
// large data may be unread.
func (v *EventsView) DiskEntriesBefore(f *os.File, seq event.Seq) []Entry {
	start, ok := v.Index.FindLast(func(p EventPosition) bool { return p.Seq >= seq })
	if !ok {
		return nil
	}
	var part []Entry
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
