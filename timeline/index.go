package timeline

import "sort"

// A place is the position of an event: among all events, in the printed text, and in the
// files. The place after the last event is the place of the next one.
type place struct {
	seq   Seq
	bytes int64 // of text and displays before it
	cost  int64 // of the events before it, see cost

	offset     int64 // of its record in the events file
	structural int64 // offset of the newest structural record before it, or -1
}

// after returns the place after event e, whose record has this size.
func (p place) after(e Event, size int64) place {
	if structural(e.Body) {
		p.structural = p.offset
	}
	p.seq++
	p.bytes += contentBytes(e.Body)
	p.cost += cost(e.Body)
	p.offset += size
	return p
}

// indexStride is the distance, in bytes of the events file, between the places in an
// index. Finding an event reads that much. With files of 256 MiB an index takes 200 KiB.
const indexStride = 64 << 10

// An index has places of events in the events file, in order. It only grows, so a copy
// of the slice stays valid while the writer goes on.
type index []place

// seek returns the last place for which after(place) is false.
func (x index) seek(after func(place) bool) (place, bool) {
	i := sort.Search(len(x), func(i int) bool { return after(x[i]) })
	if i == 0 {
		return place{}, false
	}
	return x[i-1], true
}

// A lineMark is the position of a line in output.txt.
type lineMark struct {
	line   int
	offset int64
}

// maxMarks bounds a trail.
const maxMarks = 256

// A trail remembers roughly how many bytes came before events that are lost: in no file
// and no longer in memory. So a Gap can state its size. A trail is bounded: the longer it
// gets, the coarser it becomes.
type trail struct {
	marks  []place
	stride int64 // bytes between two marks
}

// add notes the place of an event that is about to be lost.
func (t *trail) add(p place) {
	if n := len(t.marks); n > 0 && p.bytes-t.marks[n-1].bytes < t.stride {
		return
	}
	if len(t.marks) == maxMarks {
		for i := range maxMarks / 2 {
			t.marks[i] = t.marks[2*i]
		}
		t.marks = t.marks[:maxMarks/2]
		t.stride = 2 * max(t.stride, 1<<10)
	}
	t.marks = append(t.marks, p)
}

// bytesBefore returns a lower bound of the bytes that came before seq.
func (t *trail) bytesBefore(seq Seq) int64 {
	p, _ := index(t.marks).seek(func(p place) bool { return p.seq > seq })
	return p.bytes
}

// The cost of an event beyond its bytes, in memory and in a Window.
const (
	memoryOverheadBytes = 200
	windowOverheadBytes = 16
)

// contentBytes returns the size of text and displays.
func contentBytes(b Body) int64 {
	switch b := b.(type) {
	case Text:
		return int64(len(b.Data))
	case Display:
		return b.Bytes()
	}
	return 0
}

// payloadBytes returns the size of everything of variable size.
func payloadBytes(body Body) int64 {
	n := 0
	switch b := body.(type) {
	case Text:
		n = len(b.Data)
	case Display:
		n = int(b.Bytes()) + len(b.Meta) + len(b.ID) + len(b.Title)
		for mime := range b.Data {
			n += len(mime)
		}
	case TurnStarted:
		n = len(b.Input) + len(b.Author)
	case TurnEnded:
		n = len(b.Outcome) + len(b.Name) + len(b.Message) + len(b.Prompt)
	case Wait:
		n = len(b.Prompt) + len(b.Kind) + len(b.Reader) + b.Asks.bytes()
	case Denied:
		n = b.bytes()
	case Granted:
		n = len(b.Read) + len(b.Write) + len(b.Host) + len(b.Call) + len(b.Author)
	case InputLine:
		n = len(b.Prompt) + len(b.Text) + len(b.Author)
	case Interrupt:
		n = len(b.Author)
	case Progress:
		n = len(b.Message)
	case Preparation:
		n = len(b.What) + len(b.Message)
	case Call:
		n = len(b.Name)
	case Notice:
		n = len(b.Message)
	case Limit:
		n = len(b.Program)
	case GenerationStarted:
		n = len(b.Worker)
	case GenerationEnded:
		n = len(b.Reason) + len(b.Message) + len(b.LastLine)
	}
	return int64(n)
}

func (d Denied) bytes() int {
	return len(d.Op) + len(d.Path) + len(d.Host) + len(d.By) + len(d.Remedy) + len(d.Call) + len(d.With)
}

// memoryBytes returns the memory that an event uses.
func memoryBytes(b Body) int64 { return memoryOverheadBytes + payloadBytes(b) }

// cost returns the part of a Window's budget that an event uses. A picture counts less
// than its bytes, so that it is shown whole beside long text. Of another display only the text
// is shown. An input and the message of an error count nothing: the one is not shown, and the other is in
// the output, so a long one must not use up the budget.
func cost(b Body) int64 {
	switch b := b.(type) {
	case Display:
		return windowOverheadBytes + displayCost(b)
	case TurnStarted, TurnEnded:
		return windowOverheadBytes
	}
	return windowOverheadBytes + payloadBytes(b)
}

func displayCost(d Display) int64 {
	for _, mime := range pictureTypes {
		if n, ok := d.sizeOf(mime); ok {
			return 2048 + n/64
		}
	}
	if d.Result {
		return 0
	}
	plain, _ := d.sizeOf(mimePlain)
	markdown, _ := d.sizeOf(mimeMarkdown)
	return max(plain, min(markdown, maxMarkdown))
}
