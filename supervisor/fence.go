package supervisor

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxUnplaced bounds, in bytes, the terminal output that is held back because the
	// frame of a marker in it has not arrived. When it is reached, the terminal is not
	// read, so its writer blocks.
	maxUnplaced = 1 << 20

	// readBytes bounds one read of the terminal. The kernel rarely has more than 4 KiB.
	readBytes = 8 << 10

	// drainBytes bounds the read of the terminal when a worker without a fence goes idle
	// or asks for input.
	drainBytes = 256 << 10

	// maxMarker bounds a marker's body, in bytes.
	maxMarker = 24
)

var markerEnd = []byte("\x1b\\")

// A fence merges the two channels of a worker into one true order. Only the terminal sees
// the output of the runtime, its children and C code in order. So the worker leaves a marker
// there for each frame that must be placed. A frame is delivered when its marker is reached,
// and the text after a marker when its frame is delivered.
//
// A worker writes the marker before the frame. So when a frame has arrived, its marker and
// everything before it can be read from the terminal without waiting. The reader of the
// frame does that itself, so no other goroutine must wake up. If the marker is not there, it
// will never come, because the terminal's output was discarded; then the frame is placed
// after the present output.
//
// Two goroutines call it, the reader of frames and the reader of the terminal.
type fence struct {
	prefix  []byte                    // ESC _ nonce ;
	read    func([]byte) (int, error) // of the terminal; does not wait: 0, nil is nothing now
	sync    func()                    // waits until all output so far can be read
	onText  func(timeline.Stream, timeline.TextKind, []byte)
	onFrame func(ipc.Message)

	// screen reports whether a program has taken the terminal's keys; onScreen is told of each
	// change, in its place among the text. nil: it is no person's terminal.
	screen   func() bool
	onScreen func(on bool)

	// order serialises reading the terminal and delivery, so it is held while the
	// callbacks run. Only the worker's two readers ever wait for it.
	order  sync.Mutex
	buf    []byte
	stream timeline.Stream
	kind   timeline.TextKind
	tail   []byte        // terminal bytes that are not placed yet
	placed uint64        // the highest mark that was delivered
	taken  bool          // what onScreen was told last
	room   chan struct{} // closed when tail shrinks; nil when nobody waits
}

func newFence(nonce string, read func([]byte) (int, error), onText func(timeline.Stream, timeline.TextKind, []byte), onFrame func(ipc.Message)) *fence {
	return &fence{
		prefix:  []byte("\x1b_" + nonce + ";"),
		read:    read,
		sync:    func() {},
		onText:  onText,
		onFrame: onFrame,
		buf:     make([]byte, readBytes),
	}
}

// frame places one frame.
func (f *fence) frame(m ipc.Message) {
	f.order.Lock()
	defer f.order.Unlock()
	mark := ipc.MarkOf(m)
	switch {
	case mark > 0:
		for looked := 0; !f.place(mark) && looked < maxUnplaced; {
			n, _ := f.pull()
			if n == 0 {
				break
			}
			looked += n // the marker may be lost while a program writes without end
		}
		f.placed = max(f.placed, mark)
	case endsText(m): // a worker without a fence: only what one look finds
		f.sync()
		for drained, n := 0, 1; n > 0 && drained < drainBytes; drained += n {
			n, _ = f.pull()
			f.place(0)
		}
	}
	f.onFrame(m)
	f.place(0)
}

// endsText reports whether output of the worker before m must be placed before it.
func endsText(m ipc.Message) bool {
	switch m.(type) {
	case ipc.Idle, ipc.StdinWait:
		return true
	}
	return false
}

// text places one read of the terminal's output. It reports whether there was any, and the
// terminal's end. While too much is unplaced, it blocks until stop is closed.
func (f *fence) text(stop <-chan struct{}) (any bool, err error) {
	f.order.Lock()
	n, err := f.pull()
	f.place(0)
	for len(f.tail) > maxUnplaced {
		if f.room == nil {
			f.room = make(chan struct{})
		}
		room := f.room
		f.order.Unlock()
		select {
		case <-room:
		case <-stop:
			return n > 0, err
		}
		f.order.Lock()
	}
	f.order.Unlock()
	return n > 0, err
}

// catchUp places the terminal's present output, as far as one look finds it.
func (f *fence) catchUp(stop <-chan struct{}) {
	for looks, any := 0, true; any && looks < drainBytes/readBytes; looks++ {
		any, _ = f.text(stop)
	}
}

// awaits reports whether the terminal has the marker of a frame that has not arrived.
func (f *fence) awaits() bool {
	f.order.Lock()
	defer f.order.Unlock()
	return bytes.HasPrefix(f.tail, f.prefix)
}

// pull reads the terminal once; order is held.
func (f *fence) pull() (int, error) {
	n, err := f.read(f.buf)
	if f.screen != nil {
		// Text from before a program gave the keys back may still draw.
		if on := f.screen(); on != f.taken && (on || n == 0) {
			f.taken = on
			f.onScreen(on)
		}
	}
	if n > 0 {
		f.tail = append(f.tail, f.written(f.buf[:n])...)
	}
	return n, err
}

// written returns text as programs wrote it. At a person's terminal the system has made each
// newline two characters; while a program draws, that is its own choice. A pair that two reads
// share stays a pair, which looks the same.
func (f *fence) written(b []byte) []byte {
	if f.screen == nil || f.taken {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// flush delivers the rest, once nothing more can arrive: the text after markers whose frames
// never came.
func (f *fence) flush() {
	f.order.Lock()
	defer f.order.Unlock()
	for len(f.tail) > 0 {
		f.place(0)
		if end := bytes.Index(f.tail, markerEnd); bytes.HasPrefix(f.tail, f.prefix) && end >= 0 {
			f.tail = f.tail[end+len(markerEnd):]
			continue
		}
		f.emit(f.tail)
		f.tail = nil
	}
}

// place delivers text up to the marker of mark, and reports whether it was reached; 0 means
// up to the first marker whose frame has not come. order is held.
func (f *fence) place(mark uint64) (reached bool) {
	rest := f.tail
	for len(rest) > 0 && !reached {
		i := bytes.Index(rest, f.prefix)
		if i < 0 {
			keep := partialSuffix(rest, f.prefix)
			f.emit(rest[:len(rest)-keep])
			rest = rest[len(rest)-keep:]
			break
		}
		f.emit(rest[:i])
		rest = rest[i:]
		body := rest[len(f.prefix):]
		end := bytes.Index(body[:min(len(body), maxMarker)], markerEnd)
		if end < 0 && len(body) < maxMarker {
			break // the marker itself is incomplete
		}
		kind, number := parseMarker(body[:max(end, 0)])
		switch {
		case kind == 'O':
			f.stream, f.kind = timeline.Stdout, ""
		case kind == 'E':
			f.stream, f.kind = timeline.Stderr, ""
		case kind == 'R':
			f.stream, f.kind = timeline.Stdout, timeline.TextResult
		case kind == 'T':
			f.stream, f.kind = timeline.Stderr, timeline.TextTraceback
		case kind == '#' && number == mark && mark > 0:
			reached = true
		case kind == '#' && number > f.placed && mark == 0:
			f.keep(rest) // its frame will come
			return false
		case kind == '#' && number > f.placed && number > mark:
			f.keep(rest) // frames come in order: the marker of this one was lost
			return true
		case kind == '#': // its frame was delivered without it
		default: // not a marker: ordinary text
			f.emit(f.prefix)
			rest = body
			continue
		}
		rest = body[end+len(markerEnd):]
	}
	f.keep(rest)
	return reached
}

// keep keeps rest, the end of tail, for later.
func (f *fence) keep(rest []byte) {
	f.tail = f.tail[:copy(f.tail, rest)]
	if f.room != nil && len(f.tail) <= maxUnplaced {
		close(f.room)
		f.room = nil
	}
}

// parseMarker reads a marker's body: 'O', 'E', 'R', 'T', or '#' and a number. 0 is none.
func parseMarker(body []byte) (kind byte, number uint64) {
	if len(body) == 1 && strings.IndexByte("OERT", body[0]) >= 0 {
		return body[0], 0
	}
	if len(body) > 1 && body[0] == '#' {
		if n, err := strconv.ParseUint(string(body[1:]), 10, 64); err == nil {
			return '#', n
		}
	}
	return 0, 0
}

func (f *fence) emit(b []byte) {
	if len(b) > 0 {
		f.onText(f.stream, f.kind, bytes.Clone(b))
	}
}

// partialSuffix returns how many bytes at the end of b may begin prefix.
func partialSuffix(b, prefix []byte) int {
	for n := min(len(b), len(prefix)-1); n > 0; n-- {
		if bytes.HasPrefix(prefix, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}
