package store

import (
	"sort"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// An EventPosition is the position of an event: among all events, in the printed text, and in
// the files. The position after the last event is that of the next one.
type EventPosition struct {
	Seq         event.Seq
	BytesBefore int64 // of text and displays before it
	CostBefore  int64 // of the events before it, see WindowCost

	Offset         int64 // of its record in the events file
	LastStructural int64 // offset of the newest structural record before it, or -1
}

// AfterEvent returns the position after event e, whose record has this size.
func (p EventPosition) AfterEvent(e event.Event, size int64) EventPosition {
	if event.IsStructural(e.Body) {
		p.LastStructural = p.Offset
	}
	p.Seq++
	p.BytesBefore += event.ContentBytes(e.Body)
	p.CostBefore += event.WindowCost(e.Body)
	p.Offset += size
	return p
}

// indexStride is the distance, in bytes of the events file, between the positions in an index.
// Finding an event reads that much. With files of 256 MiB an index takes 200 KiB.
const indexStride = 64 << 10

// An Index has positions of events in the events file, in order. It only grows, so a copy of
// the slice stays valid while the writer continues.
type Index []EventPosition

// FindLast returns the last position for which after returns false.
func (ix Index) FindLast(after func(EventPosition) bool) (EventPosition, bool) {
	i := sort.Search(len(ix), func(i int) bool { return after(ix[i]) })
	if i == 0 {
		return EventPosition{}, false
	}
	return ix[i-1], true
}

// A LineMark is the position of a line in output.txt.
type LineMark struct {
	line   int
	offset int64
}

// maxMarks bounds the marks of a ByteEstimate.
const maxMarks = 256

// A ByteEstimate records roughly how many bytes came before lost events, so that a Gap can state its
// size. Lost events are neither in a file nor in memory. The memory of the estimate is bounded: with
// more events it becomes less precise.
type ByteEstimate struct {
	marks       []EventPosition
	strideBytes int64 // minimum distance of two marks, in bytes
}

// AddPosition records the position of an event that is about to be lost.
func (e *ByteEstimate) AddPosition(p EventPosition) {
	if n := len(e.marks); n > 0 && p.BytesBefore-e.marks[n-1].BytesBefore < e.strideBytes {
		return
	}
	if len(e.marks) == maxMarks {
		for i := range maxMarks / 2 {
			e.marks[i] = e.marks[2*i]
		}
		e.marks = e.marks[:maxMarks/2]
		e.strideBytes = 2 * max(e.strideBytes, 1<<10)
	}
	e.marks = append(e.marks, p)
}

// BytesBefore returns a lower bound of the bytes that came before seq.
func (e *ByteEstimate) BytesBefore(seq event.Seq) int64 {
	p, _ := Index(e.marks).FindLast(func(p EventPosition) bool { return p.Seq > seq })
	return p.BytesBefore
}

// An Entry is an event with its position in the log and the files.
type Entry struct {
	event.Event
	Position EventPosition
}
