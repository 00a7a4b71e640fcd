package console

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// Control sequences that switch bracketed paste on and off. With it on, a terminal sends
// keys.PasteStart and keys.PasteEnd around a paste.
const (
	bracketOn  = "\x1b[?2004h"
	bracketOff = "\x1b[?2004l"
)

const (
	ctrlC         = '\x03'
	ctrlD         = '\x04'
	ctrlZ         = '\x1a'
	ctrlBackslash = '\x1c'
)

// maxTypeAhead bounds the unread input, in bytes. maxEditedText bounds an edited text, because an
// editor may be slower than a paste. It also bounds each paste. More is dropped.
const (
	maxTypeAhead  = 1 << 20
	maxEditedText = 64 << 20
)

// maxControlSequence bounds the sequence of one control character, in bytes.
const maxControlSequence = 24

// pasteEndDelay is longer than any pause within a paste.
const pasteEndDelay = 250 * time.Millisecond

// A keyReader reads the terminal's input and recognises pastes. It reads all the time, so early
// input is stored, and Ctrl-C works while code runs. It implements keys.KeySource for one
// goroutine.
type keyReader struct {
	interrupt func()        // called on Ctrl-C while no text is edited
	suspend   func()        // called on Ctrl-Z; nil if Ctrl-Z means the end of input here
	quit      func()        // called on Ctrl-\
	relay     func()        // called on Ctrl-]; nil if it is a key of the editor
	reclaim   func()        // called on the second Ctrl-\ in a row, while a program has the keys
	arrived   chan struct{} // one token: input is available

	mu        sync.Mutex
	editing   bool        // guarded by mu: Ctrl-C belongs to the edited text
	woken     bool        // guarded by mu: awaitKey returns at once
	typed     []byte      // guarded by mu: decoded and not read
	readCount int         // guarded by mu: how many bytes were read before typed
	bursts    []burst     // guarded by mu: of typed, in order
	err       error       // guarded by mu: the terminal's end
	lineBegin int         // guarded by mu: the first byte of the edited line, counted like readCount
	mark      programMark // guarded by mu: which lines of typed are for a program

	passMu      sync.Mutex         // locked while keys are passed on, so that they stay in order
	program     func([]byte) error // guarded by passMu: takes the keys; nil while repl has them
	quitPresses int                // guarded by passMu: how often Ctrl-\ was pressed in a row
	lateKeys    []byte             // guarded by passMu: typed after the program had stopped taking keys

	decodeMu    sync.Mutex // guards the rest
	paste       pasteState
	recentBytes []byte // the last bytes outside a paste
	decoded     []byte // decoded from one read of the terminal,
	lastLineEnd int    // the position after its last line end
	hasLines    bool   // text follows a line end
}

// A pasteState tracks the markers and the content of a bracketed paste.
type pasteState struct {
	active        bool
	timer         *time.Timer // ends a paste in which Ctrl-C was pressed; nil without a Ctrl-C
	matched       int         // matched bytes of a possible marker
	markerDropped bool        // there was no room for the start marker, so the paste is dropped
	cut           bool        // there was no room for a part of the paste, so the rest is dropped
	lastByte      byte
	size          int // in bytes
}

// A burst records the bytes of one read of the terminal, if there was more than one.
type burst struct {
	from, end   int  // its bytes, counted like keyReader.readCount
	lastLineEnd int  // the position after its last line end
	hasLines    bool // text follows a line end
}

// newKeyReader returns a keyReader; the caller must start pumpInput. Neither interrupt nor quit may
// block. suspend blocks while this program is stopped.
func newKeyReader(interrupt, quit, suspend func()) *keyReader {
	return &keyReader{interrupt: interrupt, quit: quit, suspend: suspend, arrived: make(chan struct{}, 1)}
}

// pumpInput reads in until its end.
func (k *keyReader) pumpInput(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.decodeInput(k.passKeys(buf[:n]))
		if err != nil {
			k.failReads(err)
			return
		}
	}
}

// LastBurst implements keys.KeySource.
func (k *keyReader) LastBurst() keys.KeyBurst {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.bursts) > 0 && k.bursts[0].end < k.readCount { // these are read
		k.bursts = k.bursts[1:]
	}
	if len(k.bursts) == 0 || k.readCount <= k.bursts[0].from {
		return keys.KeyBurst{}
	}
	b := k.bursts[0]
	return keys.KeyBurst{HasMore: k.readCount < b.end, LineEndFollows: k.readCount < b.lastLineEnd, AfterLines: b.hasLines}
}

// failReads makes NextRune return err once everything is read. The first error counts.
func (k *keyReader) failReads(err error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
	}
	k.mu.Unlock()
	k.signalArrival()
}

func (k *keyReader) signalArrival() {
	select {
	case k.arrived <- struct{}{}:
	default: // the reader has a token already
	}
}

// setEditing sets whether a text is being edited.
func (k *keyReader) setEditing(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.editing = on; on {
		k.lineBegin = k.readCount
	}
}

// wakeReader lets awaitKey return, although no key was pressed.
func (k *keyReader) wakeReader() {
	k.mu.Lock()
	k.woken = true
	k.mu.Unlock()
	k.signalArrival()
}

// awaitKey waits for a key, and reports whether wakeReader was called instead.
func (k *keyReader) awaitKey() (woken bool, err error) {
	for {
		k.mu.Lock()
		woken, ready, err := k.woken, len(k.typed) > 0, k.err
		k.woken = false
		k.mu.Unlock()
		switch {
		case woken, ready:
			return woken, nil
		case err != nil:
			return false, err
		}
		<-k.arrived
	}
}

// hasUnreadKeys reports whether unread keys are available.
func (k *keyReader) hasUnreadKeys() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.typed) > 0
}

// discardTyped drops the unread input.
func (k *keyReader) discardTyped() {
	k.mu.Lock()
	k.takeTyped()
	k.mu.Unlock()
}

// takeTyped returns the unread input and drops it. The caller holds mu.
func (k *keyReader) takeTyped() []byte {
	dropped := k.typed
	k.readCount += len(k.typed)
	k.typed = nil
	return dropped
}

// NextRune implements keys.KeySource.
func (k *keyReader) NextRune(patience time.Duration) (rune, error) {
	var late <-chan time.Time
	for {
		k.mu.Lock()
		r, n := utf8.DecodeRune(k.typed)
		if n > 0 && (utf8.FullRune(k.typed) || k.err != nil) {
			k.typed = k.typed[n:]
			k.readCount += n
			k.mu.Unlock()
			return r, nil
		}
		err := k.err
		k.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if late == nil && patience > 0 {
			late = time.After(patience)
		}
		select {
		case <-k.arrived:
		case <-late:
			return 0, keys.ErrQuiet
		}
	}
}

// decodeInput decodes one read of the terminal. A paste marker may be split over any number of
// reads.
func (k *keyReader) decodeInput(b []byte) {
	if len(b) == 0 {
		return
	}
	k.decodeMu.Lock()
	defer k.decodeMu.Unlock()
	if k.paste.timer != nil {
		k.paste.timer.Stop()
		k.paste.timer = nil
	}
	for _, c := range b {
		k.decodeByte(c)
	}
	k.deliverDecoded()
	if k.paste.active && b[len(b)-1] == ctrlC {
		k.awaitPasteEnd()
	}
}

// awaitPasteEnd ends a paste if Ctrl-C was its last byte and nothing follows. Then the user has
// pressed it, because the terminal did not send the end.
func (k *keyReader) awaitPasteEnd() {
	var timer *time.Timer
	timer = time.AfterFunc(pasteEndDelay, func() {
		k.decodeMu.Lock()
		defer k.decodeMu.Unlock()
		if k.paste.timer == timer {
			k.paste.timer = nil
			k.endPaste()
			k.decodeByte(ctrlC)
			k.deliverDecoded()
		}
	})
	k.paste.timer = timer
}

// deliverDecoded makes the decoded bytes readable.
func (k *keyReader) deliverDecoded() {
	k.mu.Lock()
	from := k.readCount + len(k.typed)
	k.typed = append(k.typed, k.decoded...)
	if len(k.decoded) > 1 {
		k.bursts = append(k.bursts, burst{from, from + len(k.decoded), from + k.lastLineEnd, k.hasLines})
	}
	k.decoded, k.lastLineEnd, k.hasLines = k.decoded[:0], 0, false
	k.mu.Unlock()
	k.signalArrival()
}

func (k *keyReader) decodeByte(c byte) {
	if k.paste.active {
		k.decodePasteByte(c)
		return
	}
	dropped := !k.handleKey(c)
	k.recentBytes = append(k.recentBytes[max(0, len(k.recentBytes)-maxControlSequence):], c)
	if n, control := findControl(k.recentBytes, c); n > 0 && k.removeLast(n) {
		k.handleKey(control)
	}
	if c == '\r' || c == '\n' {
		k.lastLineEnd = len(k.decoded)
	} else {
		k.hasLines = k.hasLines || k.lastLineEnd > 0
	}
	switch {
	case c == keys.PasteStart[k.paste.matched]:
		k.paste.matched++
	case c == keys.PasteStart[0]:
		k.paste.matched, k.paste.markerDropped = 1, false
	default:
		k.paste.matched = 0
	}
	k.paste.markerDropped = k.paste.matched > 0 && (k.paste.markerDropped || dropped)
	if k.paste.matched == len(keys.PasteStart) {
		k.paste.matched, k.paste.active, k.paste.cut, k.paste.lastByte, k.paste.size = 0, true, false, 0, 0
	}
}

// findControl finds Ctrl-C, Ctrl-Z or Ctrl-\ as a control sequence at the end of what was sent, and
// returns its length in bytes. A terminal sends these sequences if a program enabled kitty's
// keyboard protocol or xterm's modifyOtherKeys and then died.
func findControl(sent []byte, final byte) (length int, control byte) {
	const ctrl, locks = 4, 64 | 128
	if final != 'u' && final != '~' || len(sent) == 0 {
		return 0, 0
	}
	start := bytes.LastIndex(sent, []byte("\x1b["))
	if start < 0 || sent[len(sent)-1] != final || start+2 == len(sent) {
		return 0, 0
	}
	parts := strings.Split(string(sent[start+2:len(sent)-1]), ";")
	if final == '~' && len(parts) == 3 && parts[0] == "27" {
		parts = []string{parts[2], parts[1]}
	} else if final == '~' {
		return 0, 0
	}
	control = map[string]byte{"99": ctrlC, "122": ctrlZ, "92": ctrlBackslash}[parts[0]]
	if len(parts) != 2 || control == 0 {
		return 0, 0
	}
	if modifiers, err := strconv.Atoi(strings.TrimSuffix(parts[1], ":1")); err != nil || (modifiers-1)&^locks != ctrl {
		return 0, 0
	}
	return len(sent) - start, control
}

// removeLast removes the last n bytes of the input, and reports false if they are already read.
func (k *keyReader) removeLast(n int) bool {
	fresh := min(n, len(k.decoded))
	k.mu.Lock()
	defer k.mu.Unlock()
	if n-fresh > len(k.typed) {
		return false
	}
	k.typed = k.typed[:len(k.typed)-(n-fresh)]
	k.decoded = k.decoded[:len(k.decoded)-fresh]
	return true
}

func (k *keyReader) endPaste() {
	switch {
	case k.paste.markerDropped:
	case k.paste.cut:
		k.appendInput(keys.PasteEndCut, true)
	default:
		k.appendInput(keys.PasteEnd, true)
	}
	k.paste.active, k.paste.matched, k.paste.markerDropped = false, 0, false
}

// decodePasteByte looks for the end of a paste. An escape is not part of a paste.
func (k *keyReader) decodePasteByte(c byte) {
	switch {
	case c == keys.PasteEnd[k.paste.matched]:
		if k.paste.matched++; k.paste.matched < len(keys.PasteEnd) {
			return
		}
		k.endPaste()
		return
	case k.paste.matched > 0:
		for _, b := range []byte(keys.PasteEnd[:k.paste.matched]) {
			k.addPasteByte(b)
		}
		if k.paste.matched = 0; c == keys.PasteEnd[0] {
			k.paste.matched = 1
			return
		}
	}
	k.addPasteByte(c)
}

// handleKey handles a key, and reports false if there was no room for it.
func (k *keyReader) handleKey(c byte) bool {
	if c == ctrlBackslash {
		k.quit()
		return true
	}
	k.mu.Lock()
	editing := k.editing
	if c == ctrlC && !editing { // early input was meant for the interrupted code
		k.takeTyped()
		k.decoded = nil
	}
	k.mu.Unlock()
	switch {
	case c == ctrlBracket && k.relay != nil:
		k.relay()
	case c == ctrlC && !editing:
		k.interrupt()
	case c == ctrlZ && k.suspend != nil:
		k.suspend()
	case c == ctrlZ:
		return k.appendInput(string([]byte{ctrlD}), false)
	default:
		return k.appendInput(string([]byte{c}), false)
	}
	return true
}

// addPasteByte handles a byte of a paste, which is never a key.
func (k *keyReader) addPasteByte(c byte) {
	pair := c == '\n' && k.paste.lastByte == '\r'
	k.paste.lastByte = c
	k.paste.size++
	switch {
	case k.paste.markerDropped, k.paste.cut, pair: // "\r\n" is one line end
	case k.paste.size == maxEditedText:
		k.paste.cut = true
	case c == '\r' || c == '\n':
		k.paste.cut = !k.appendInput("\n", false)
	case c < ' ' && c != '\t' || c == '\x7f':
	default:
		k.paste.cut = !k.appendInput(string([]byte{c}), false)
	}
}

// appendInput adds to the input, and reports false if there was no room. always stores the input
// even without room; it is for the end of a paste, without which the next keys would belong to the
// paste.
func (k *keyReader) appendInput(s string, always bool) bool {
	k.mu.Lock()
	limit := maxTypeAhead
	if k.editing {
		limit = maxEditedText
	}
	room := always || len(k.typed)+len(k.decoded)+len(s) <= limit
	k.mu.Unlock()
	if room {
		k.decoded = append(k.decoded, s...)
	}
	return room
}
