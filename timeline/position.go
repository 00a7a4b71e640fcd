package timeline

import (
	"sort"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// An eventPosition is the position of an event: among all events, in the printed text, and in
// the files. The position after the last event is that of the next one.
type eventPosition struct {
	seq         Seq
	bytesBefore int64 // of text and displays before it
	costBefore  int64 // of the events before it, see WindowCost

	offset         int64 // of its record in the events file
	lastStructural int64 // offset of the newest structural record before it, or -1
}

// afterEvent returns the position after event e, whose record has this size.
func (p eventPosition) afterEvent(e Event, size int64) eventPosition {
	if event.IsStructural(e.Body) {
		p.lastStructural = p.offset
	}
	p.seq++
	p.bytesBefore += event.ContentBytes(e.Body)
	p.costBefore += event.WindowCost(e.Body)
	p.offset += size
	return p
}

// indexStride is the distance, in bytes of the events file, between the positions in an index.
// Finding an event reads that much. With files of 256 MiB an index takes 200 KiB.
const indexStride = 64 << 10

// An index has positions of events in the events file, in order. It only grows, so a copy of
// the slice stays valid while the writer continues.
type index []eventPosition

// findLast returns the last position for which after returns false.
func (ix index) findLast(after func(eventPosition) bool) (eventPosition, bool) {
	i := sort.Search(len(ix), func(i int) bool { return after(ix[i]) })
	if i == 0 {
		return eventPosition{}, false
	}
	return ix[i-1], true
}

// A lineMark is the position of a line in output.txt.
type lineMark struct {
	line   int
	offset int64
}

// maxMarks bounds the marks of a byteEstimate.
const maxMarks = 256

// A byteEstimate records roughly how many bytes came before lost events, which are neither in a
// file nor in memory, so that a Gap can state its size. It is bounded: the longer it gets, the
// coarser it becomes.
type byteEstimate struct {
	marks       []eventPosition
	strideBytes int64 // minimum distance of two marks, in bytes
}

// addPosition records the position of an event that is about to be lost.
func (e *byteEstimate) addPosition(p eventPosition) {
	if n := len(e.marks); n > 0 && p.bytesBefore-e.marks[n-1].bytesBefore < e.strideBytes {
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

// bytesBefore returns a lower bound of the bytes that came before seq.
func (e *byteEstimate) bytesBefore(seq Seq) int64 {
	p, _ := index(e.marks).findLast(func(p eventPosition) bool { return p.seq > seq })
	return p.bytesBefore
}

// An entry is an event with its position in the log and the files.
type entry struct {
	Event
	position eventPosition
}
