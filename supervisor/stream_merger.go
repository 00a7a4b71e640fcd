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
	// maxPendingBytes bounds, in bytes, the terminal output that is held back because the frame of
	// a marker in it has not arrived. At the bound, the terminal is no longer read, so its writers
	// block.
	maxPendingBytes = 1 << 20

	// readBufferBytes bounds one read of the terminal. The kernel rarely returns more than 4 KiB.
	readBufferBytes = 8 << 10

	// maxDrainBytes bounds the read of the terminal when a worker without sync markers goes idle or
	// asks for input.
	maxDrainBytes = 256 << 10

	// maxMarkerBytes bounds a marker's body, in bytes.
	maxMarkerBytes = 24
)

var markerTerminator = []byte("\x1b\\")

// A streamMerger merges the two channels of a worker into one stream in true order. Only the
// terminal has the output of the runtime, its children and C code in order. So the worker writes a
// sync marker to the terminal for each frame whose position matters. A frame is delivered when its
// marker is reached, and the text after a marker once its frame is delivered.
//
// A worker writes the marker before the frame. So when a frame has arrived, its marker and
// everything before it can be read from the terminal without waiting. The reader of frames does
// that itself, so no other goroutine has to wake up. If the marker is missing, it will never come,
// because terminal output was discarded; then the frame is delivered after the present output.
//
// Two goroutines use it: the reader of frames and the reader of the terminal.
type streamMerger struct {
	prefix       []byte                    // ESC _ nonce ;
	readTerminal func([]byte) (int, error) // reads without waiting; 0, nil means no output now
	syncTerminal func()                    // waits until all output so far can be read
	onText       func(timeline.Stream, timeline.TextKind, []byte)
	onFrame      func(ipc.Message)

	// isScreenOn reports whether a program has taken the terminal's keys. onScreenChange is called
	// at each change, in order with the text. Both are nil if the terminal is not a user's.
	isScreenOn     func() bool
	onScreenChange func(on bool)

	// mu serialises reads of the terminal and deliveries, so it is held while the callbacks run.
	// Only the worker's two readers ever wait for it.
	mu        sync.Mutex
	buf       []byte
	stream    timeline.Stream
	kind      timeline.TextKind
	pending   []byte        // terminal bytes that are not delivered yet
	lastMark  uint64        // the highest mark that was delivered
	screenOn  bool          // the last state passed to onScreenChange
	roomFreed chan struct{} // closed when pending shrinks; nil without a waiter
}

func newStreamMerger(nonce string, read func([]byte) (int, error), onText func(timeline.Stream, timeline.TextKind, []byte), onFrame func(ipc.Message)) *streamMerger {
	return &streamMerger{
		prefix:       []byte("\x1b_" + nonce + ";"),
		readTerminal: read,
		syncTerminal: func() {},
		onText:       onText,
		onFrame:      onFrame,
		buf:          make([]byte, readBufferBytes),
	}
}

// mergeFrame delivers one frame at its position in the text.
func (f *streamMerger) mergeFrame(m ipc.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mark := ipc.MarkOf(m)
	switch {
	case mark > 0:
		for looked := 0; !f.deliverUpTo(mark) && looked < maxPendingBytes; {
			n, _ := f.readOnce()
			if n == 0 {
				break
			}
			looked += n // the marker may be lost while a program writes endlessly
		}
		f.lastMark = max(f.lastMark, mark)
	case isOutputBarrier(m): // a worker without markers: only what can be read now
		f.syncTerminal()
		for drained, n := 0, 1; n > 0 && drained < maxDrainBytes; drained += n {
			n, _ = f.readOnce()
			f.deliverUpTo(0)
		}
	}
	f.onFrame(m)
	f.deliverUpTo(0)
}

// isOutputBarrier reports whether the worker's output before m must be delivered before m.
func isOutputBarrier(m ipc.Message) bool {
	switch m.(type) {
	case ipc.Idle, ipc.StdinWait:
		return true
	}
	return false
}

// readText reads the terminal once and delivers the text. any reports whether there was text, and
// err the end of the terminal. While too much is pending, it blocks until stop is closed.
func (f *streamMerger) readText(stop <-chan struct{}) (any bool, err error) {
	f.mu.Lock()
	n, err := f.readOnce()
	f.deliverUpTo(0)
	for len(f.pending) > maxPendingBytes {
		if f.roomFreed == nil {
			f.roomFreed = make(chan struct{})
		}
		room := f.roomFreed
		f.mu.Unlock()
		select {
		case <-room:
		case <-stop:
			return n > 0, err
		}
		f.mu.Lock()
	}
	f.mu.Unlock()
	return n > 0, err
}

// catchUp delivers the terminal output that can be read now.
func (f *streamMerger) catchUp(stop <-chan struct{}) {
	for looks, any := 0, true; any && looks < maxDrainBytes/readBufferBytes; looks++ {
		any, _ = f.readText(stop)
	}
}

// isAwaitingFrame reports whether a marker was read whose frame has not arrived.
func (f *streamMerger) isAwaitingFrame() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.HasPrefix(f.pending, f.prefix)
}

// readOnce reads the terminal once; mu is held.
func (f *streamMerger) readOnce() (int, error) {
	n, err := f.readTerminal(f.buf)
	if f.isScreenOn != nil {
		// Text from before a program gave the keys back may still draw.
		if on := f.isScreenOn(); on != f.screenOn && (on || n == 0) {
			f.screenOn = on
			f.onScreenChange(on)
		}
	}
	if n > 0 {
		f.pending = append(f.pending, f.restoreNewlines(f.buf[:n])...)
	}
	return n, err
}

// restoreNewlines returns text as programs wrote it. At a user's terminal the system expands each
// newline to two characters. While a program draws on the screen, its output stays unchanged. A
// pair that is split between two reads stays a pair, which looks the same.
func (f *streamMerger) restoreNewlines(b []byte) []byte {
	if f.isScreenOn == nil || f.screenOn {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// flush delivers the rest once nothing more can arrive, including the text after markers whose
// frames never came.
func (f *streamMerger) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.pending) > 0 {
		f.deliverUpTo(0)
		if end := bytes.Index(f.pending, markerTerminator); bytes.HasPrefix(f.pending, f.prefix) && end >= 0 {
			f.pending = f.pending[end+len(markerTerminator):]
			continue
		}
		f.emitText(f.pending)
		f.pending = nil
	}
}

// deliverUpTo delivers text up to the marker of mark and reports whether it was reached. 0 means up
// to the first marker whose frame has not arrived. mu is held.
func (f *streamMerger) deliverUpTo(mark uint64) (reached bool) {
	rest := f.pending
	for len(rest) > 0 && !reached {
		i := bytes.Index(rest, f.prefix)
		if i < 0 {
			keep := partialSuffix(rest, f.prefix)
			f.emitText(rest[:len(rest)-keep])
			rest = rest[len(rest)-keep:]
			break
		}
		f.emitText(rest[:i])
		rest = rest[i:]
		body := rest[len(f.prefix):]
		end := bytes.Index(body[:min(len(body), maxMarkerBytes)], markerTerminator)
		if end < 0 && len(body) < maxMarkerBytes {
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
		case kind == '#' && number > f.lastMark && mark == 0:
			f.holdBack(rest) // its frame will come
			return false
		case kind == '#' && number > f.lastMark && number > mark:
			f.holdBack(rest) // frames come in order, so the marker of mark was lost
			return true
		case kind == '#': // its frame was delivered already
		default: // not a marker: ordinary text
			f.emitText(f.prefix)
			rest = body
			continue
		}
		rest = body[end+len(markerTerminator):]
	}
	f.holdBack(rest)
	return reached
}

// holdBack keeps rest, the end of pending, for later.
func (f *streamMerger) holdBack(rest []byte) {
	f.pending = f.pending[:copy(f.pending, rest)]
	if f.roomFreed != nil && len(f.pending) <= maxPendingBytes {
		close(f.roomFreed)
		f.roomFreed = nil
	}
}

// parseMarker parses the body of a marker: 'O', 'E', 'R', 'T', or '#' and a number. Kind 0 means
// that it is not a marker.
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

func (f *streamMerger) emitText(b []byte) {
	if len(b) > 0 {
		f.onText(f.stream, f.kind, bytes.Clone(b))
	}
}

// partialSuffix returns the length of the longest suffix of b that could be the start of prefix.
func partialSuffix(b, prefix []byte) int {
	for n := min(len(b), len(prefix)-1); n > 0; n-- {
		if bytes.HasPrefix(prefix, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}
