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
// marker is reached. The text after a marker is delivered after the frame.
//
// A worker writes the marker before the frame. So when a frame has arrived, its marker and
// everything before it can be read from the terminal without waiting. The reader of frames reads
// them itself, so no other goroutine has to wake up. If the marker is missing, terminal output was
// discarded and the marker will never come. The frame is then delivered after the output that is
// there. A worker that is killed between the two writes leaves a marker without a frame. Such a
// marker is dropped at the end.
//
// The opposite order, frame first, was rejected. No marker could then lack its frame, but the
// reader of frames would wait for the reader of the terminal. That wake-up costs as much as the
// rest of a short turn.
//
// Two goroutines use it: the reader of frames and the reader of the terminal.
type streamMerger struct {
	prefix       []byte                    // ESC _ nonce ;
	readTerminal func([]byte) (int, error) // reads without waiting; 0, nil means no output now
	syncTerminal func()                    // waits until all output so far can be read
	onText       func(timeline.Text)
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
	begins    bool          // the next text begins an echo
	pending   []byte        // terminal bytes that are not delivered yet
	lastMark  uint64        // the highest mark that was delivered
	screenOn  bool          // the last state passed to onScreenChange
	roomFreed chan struct{} // closed when pending shrinks; nil without a waiter
}

func newStreamMerger(nonce string, read func([]byte) (int, error), onText func(timeline.Text), onFrame func(ipc.Message)) *streamMerger {
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
func (s *streamMerger) mergeFrame(m ipc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := ipc.MarkOf(m)
	switch {
	case mark > 0:
		for looked := 0; !s.deliverUpTo(mark) && looked < maxPendingBytes; {
			n, _ := s.readOnce()
			if n == 0 {
				break
			}
			looked += n // the marker may be lost while a program writes endlessly
		}
		s.lastMark = max(s.lastMark, mark)
	case isOutputBarrier(m): // a worker without markers: only what can be read now
		s.syncTerminal()
		for drained, n := 0, 1; n > 0 && drained < maxDrainBytes; drained += n {
			n, _ = s.readOnce()
			s.deliverUpTo(0)
		}
	}
	s.onFrame(m)
	s.deliverUpTo(0)
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
func (s *streamMerger) readText(stop <-chan struct{}) (any bool, err error) {
	s.mu.Lock()
	n, err := s.readOnce()
	s.deliverUpTo(0)
	for len(s.pending) > maxPendingBytes {
		if s.roomFreed == nil {
			s.roomFreed = make(chan struct{})
		}
		room := s.roomFreed
		s.mu.Unlock()
		select {
		case <-room:
		case <-stop:
			return n > 0, err
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	return n > 0, err
}

// catchUp delivers the terminal output that can be read now, and reports whether there was any.
func (s *streamMerger) catchUp(stop <-chan struct{}) (found bool) {
	for looks, any := 0, true; any && looks < maxDrainBytes/readBufferBytes; looks++ {
		any, _ = s.readText(stop)
		found = found || any
	}
	return found
}

// isAwaitingFrame reports whether a marker was read whose frame has not arrived.
func (s *streamMerger) isAwaitingFrame() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.HasPrefix(s.pending, s.prefix)
}

// readOnce reads the terminal once; mu is held.
func (s *streamMerger) readOnce() (int, error) {
	n, err := s.readTerminal(s.buf)
	if s.isScreenOn != nil {
		// Text from before a program gave the keys back may still draw.
		if on := s.isScreenOn(); on != s.screenOn && (on || n == 0) {
			s.screenOn = on
			s.onScreenChange(on)
		}
	}
	if n > 0 {
		s.pending = append(s.pending, s.restoreNewlines(s.buf[:n])...)
	}
	return n, err
}

// restoreNewlines returns text as programs wrote it. At a user's terminal the system expands each
// newline to two characters. While a program draws on the screen, its output stays unchanged. A
// pair that is split between two reads stays a pair, which looks the same.
func (s *streamMerger) restoreNewlines(b []byte) []byte {
	if s.isScreenOn == nil || s.screenOn {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// flush delivers the rest once nothing more can arrive, including the text after markers whose
// frames never came.
func (s *streamMerger) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) > 0 {
		s.deliverUpTo(0)
		if end := bytes.Index(s.pending, markerTerminator); bytes.HasPrefix(s.pending, s.prefix) && end >= 0 {
			s.pending = s.pending[end+len(markerTerminator):]
			continue
		}
		s.emitText(s.pending)
		s.pending = nil
	}
}

// deliverUpTo delivers text up to the marker of mark and reports whether it was reached. 0 means up
// to the first marker whose frame has not arrived. mu is held.
func (s *streamMerger) deliverUpTo(mark uint64) (reached bool) {
	rest := s.pending
	for len(rest) > 0 && !reached {
		i := bytes.Index(rest, s.prefix)
		if i < 0 {
			keep := partialSuffix(rest, s.prefix)
			s.emitText(rest[:len(rest)-keep])
			rest = rest[len(rest)-keep:]
			break
		}
		s.emitText(rest[:i])
		rest = rest[i:]
		body := rest[len(s.prefix):]
		end := bytes.Index(body[:min(len(body), maxMarkerBytes)], markerTerminator)
		if end < 0 && len(body) < maxMarkerBytes {
			break // the marker itself is incomplete
		}
		kind, number := parseMarker(body[:max(end, 0)])
		switch {
		case kind == 'O':
			s.stream, s.kind, s.begins = timeline.Stdout, "", false
		case kind == 'E':
			s.stream, s.kind, s.begins = timeline.Stderr, "", false
		case kind == 'B':
			s.stream, s.kind, s.begins = timeline.Stdout, timeline.TextResult, true
		case kind == 'R':
			s.stream, s.kind, s.begins = timeline.Stdout, timeline.TextResult, false
		case kind == 'T':
			s.stream, s.kind, s.begins = timeline.Stderr, timeline.TextTraceback, false
		case kind == '#' && number == mark && mark > 0:
			reached = true
		case kind == '#' && number > s.lastMark && mark == 0:
			s.holdBack(rest) // its frame will come
			return false
		case kind == '#' && number > s.lastMark && number > mark:
			s.holdBack(rest) // frames come in order, so the marker of mark was lost
			return true
		case kind == '#': // its frame was delivered already
		default: // not a marker: ordinary text
			s.emitText(s.prefix)
			rest = body
			continue
		}
		rest = body[end+len(markerTerminator):]
	}
	s.holdBack(rest)
	return reached
}

// holdBack keeps rest, the end of pending, for later.
func (s *streamMerger) holdBack(rest []byte) {
	s.pending = s.pending[:copy(s.pending, rest)]
	if s.roomFreed != nil && len(s.pending) <= maxPendingBytes {
		close(s.roomFreed)
		s.roomFreed = nil
	}
}

// parseMarker parses the body of a marker: 'O', 'E', 'B', 'R', 'T', or '#' and a number. Kind 0
// means that it is not a marker.
func parseMarker(body []byte) (kind byte, number uint64) {
	if len(body) == 1 && strings.IndexByte("OEBRT", body[0]) >= 0 {
		return body[0], 0
	}
	if len(body) > 1 && body[0] == '#' {
		if n, err := strconv.ParseUint(string(body[1:]), 10, 64); err == nil {
			return '#', n
		}
	}
	return 0, 0
}

func (s *streamMerger) emitText(b []byte) {
	if len(b) > 0 {
		s.onText(timeline.Text{Stream: s.stream, Kind: s.kind, Begins: s.begins, Data: bytes.Clone(b)})
		s.begins = false
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
