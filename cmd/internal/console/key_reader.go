package console

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
)

// The switches of bracketed paste: a terminal then sends edit.PasteStart and edit.PasteEnd
// around a paste.
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

// maxTypeAhead bounds the unread input, in bytes, and maxEditedText that of a text that is edited, whose
// editor may be slower than a paste, and each paste. More is dropped.
const (
	maxTypeAhead  = 1 << 20
	maxEditedText = 64 << 20
)

// maxControlSequence bounds the sequence of one control character, in bytes.
const maxControlSequence = 24

// pasteEndDelay is longer than any pause within a paste.
const pasteEndDelay = 250 * time.Millisecond

// A keyReader is the terminal's input, with pastes recognised. It is read all the time:
// early input is kept, and Ctrl-C is noticed while code runs. It implements edit.KeySource for one
// goroutine.
type keyReader struct {
	interrupt func()        // Ctrl-C was pressed while nothing is edited
	suspend   func()        // Ctrl-Z was; nil if it is the end of input here
	quit      func()        // Ctrl-\ was pressed
	reclaim   func()        // Ctrl-\ was pressed twice in a row, while a program has the keys
	arrived   chan struct{} // one token: there is something to read

	mu        sync.Mutex
	editing   bool    // guarded by mu: Ctrl-C belongs to the text that is edited
	woken     bool    // guarded by mu: await returns at once
	typed     []byte  // guarded by mu: decoded and not read
	readCount int     // guarded by mu: how many bytes were read before typed
	bursts    []burst // guarded by mu: of typed, in order
	err       error   // guarded by mu: the terminal's end

	passMu      sync.Mutex         // held while keys are passed on, so that they stay in order
	program     func([]byte) error // guarded by passing: takes the keys; nil while they are ours
	quitPresses int                // guarded by passing: how often Ctrl-\ was pressed in a row

	decodeMu      sync.Mutex  // guards the rest
	pasteTimer    *time.Timer // ends a paste in which Ctrl-C was pressed; nil if it was not
	pasting       bool
	matched       int    // bytes of what may be the next marker of a paste
	markerDropped bool   // there was no room for that marker, and so there is none for the paste
	pasteCut      bool   // there was no room for a part of the paste, and so there is none for the rest
	lastPasteByte byte   // of the paste
	pasteBytes    int    // its bytes
	recentBytes   []byte // the last bytes outside of a paste
	decoded       []byte // decoded from what was sent at a time,
	lastLineEnd   int    // behind its last end of a line
	hasLines      bool   // there is text behind an end of a line
}

// A burst is what a terminal sent at a time, if that was more than one byte.
type burst struct {
	from, end   int  // its bytes, counted as keyReader.readCount
	lastLineEnd int  // behind its last end of a line
	hasLines    bool // there is text behind an end of a line
}

// newKeyReader returns a keyboard; the caller must start pump. Neither interrupt nor quit
// may block. suspend blocks while this program is stopped.
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
			k.fail(err)
			return
		}
	}
}

// LastBurst implements edit.KeySource.
func (k *keyReader) LastBurst() lineedit.KeyBurst {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.bursts) > 0 && k.bursts[0].end < k.readCount { // these are read
		k.bursts = k.bursts[1:]
	}
	if len(k.bursts) == 0 || k.readCount <= k.bursts[0].from {
		return lineedit.KeyBurst{}
	}
	b := k.bursts[0]
	return lineedit.KeyBurst{HasMore: k.readCount < b.end, LineEndFollows: k.readCount < b.lastLineEnd, AfterLines: b.hasLines}
}

// fail lets Rune fail once everything is read. The first error counts.
func (k *keyReader) fail(err error) {
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
	k.editing = on
}

// wakeReader lets await return, although no key was pressed.
func (k *keyReader) wakeReader() {
	k.mu.Lock()
	k.woken = true
	k.mu.Unlock()
	k.signalArrival()
}

// awaitKey waits for a key, and reports whether it was poked instead.
func (k *keyReader) awaitKey() (poked bool, err error) {
	for {
		k.mu.Lock()
		poked, ready, err := k.woken, len(k.typed) > 0, k.err
		k.woken = false
		k.mu.Unlock()
		switch {
		case poked, ready:
			return poked, nil
		case err != nil:
			return false, err
		}
		<-k.arrived
	}
}

// hasUnreadKeys reports whether there are keys that were not read.
func (k *keyReader) hasUnreadKeys() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.typed) > 0
}

// discardTyped drops what was typed and not read.
func (k *keyReader) discardTyped() {
	k.mu.Lock()
	k.takeTyped()
	k.mu.Unlock()
}

// takeTyped returns what was typed and not read, and drops it; mu is held.
func (k *keyReader) takeTyped() []byte {
	dropped := k.typed
	k.readCount += len(k.typed)
	k.typed = nil
	return dropped
}

// NextRune implements edit.KeySource.
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
			return 0, lineedit.ErrQuiet
		}
	}
}

// decodeInput takes apart what the terminal sent at a time. A marker of a paste may be split over any
// number of reads.
func (k *keyReader) decodeInput(b []byte) {
	if len(b) == 0 {
		return
	}
	k.decodeMu.Lock()
	defer k.decodeMu.Unlock()
	if k.pasteTimer != nil {
		k.pasteTimer.Stop()
		k.pasteTimer = nil
	}
	for _, c := range b {
		k.decodeByte(c)
	}
	k.deliverDecoded()
	if k.pasting && b[len(b)-1] == ctrlC {
		k.awaitPasteEnd()
	}
}

// awaitPasteEnd ends a paste if Ctrl-C was the last that came, and nothing follows: then a person has pressed
// it, because the terminal does not send the end.
func (k *keyReader) awaitPasteEnd() {
	var timer *time.Timer
	timer = time.AfterFunc(pasteEndDelay, func() {
		k.decodeMu.Lock()
		defer k.decodeMu.Unlock()
		if k.pasteTimer == timer {
			k.pasteTimer = nil
			k.endPaste()
			k.decodeByte(ctrlC)
			k.deliverDecoded()
		}
	})
	k.pasteTimer = timer
}

// deliverDecoded lets what was decoded be read.
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

// decodeByte handles one byte.
func (k *keyReader) decodeByte(c byte) {
	if k.pasting {
		k.decodePasteByte(c)
		return
	}
	lost := !k.handleKey(c)
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
	case c == lineedit.PasteStart[k.matched]:
		k.matched++
	case c == lineedit.PasteStart[0]:
		k.matched, k.markerDropped = 1, false
	default:
		k.matched = 0
	}
	k.markerDropped = k.matched > 0 && (k.markerDropped || lost)
	if k.matched == len(lineedit.PasteStart) {
		k.matched, k.pasting, k.pasteCut, k.lastPasteByte, k.pasteBytes = 0, true, false, 0, 0
	}
}

// findControl finds, at the end of what was sent, Ctrl-C, Ctrl-Z or Ctrl-\ as a sequence of length bytes. A
// terminal sends them so if a program has switched on kitty's keys or xterm's modifyOtherKeys, and is gone.
func findControl(sent []byte, final byte) (length int, control byte) {
	const ctrl, locks = 4, 64 | 128
	if final != 'u' && final != '~' || len(sent) == 0 {
		return 0, 0
	}
	begin := bytes.LastIndex(sent, []byte("\x1b["))
	if begin < 0 || sent[len(sent)-1] != final || begin+2 == len(sent) {
		return 0, 0
	}
	parts := strings.Split(string(sent[begin+2:len(sent)-1]), ";")
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
	return len(sent) - begin, control
}

// removeLast removes the last n bytes of the input, and reports false if they are read already.
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

// endPaste ends a paste.
func (k *keyReader) endPaste() {
	switch {
	case k.markerDropped:
	case k.pasteCut:
		k.appendInput(lineedit.PasteEndCut, true)
	default:
		k.appendInput(lineedit.PasteEnd, true)
	}
	k.pasting, k.matched, k.markerDropped = false, 0, false
}

// decodePasteByte looks for the end of a paste. An escape is no part of one.
func (k *keyReader) decodePasteByte(c byte) {
	switch {
	case c == lineedit.PasteEnd[k.matched]:
		if k.matched++; k.matched < len(lineedit.PasteEnd) {
			return
		}
		k.endPaste()
		return
	case k.matched > 0:
		for _, held := range []byte(lineedit.PasteEnd[:k.matched]) {
			k.addPasteByte(held)
		}
		if k.matched = 0; c == lineedit.PasteEnd[0] {
			k.matched = 1
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
	pair := c == '\n' && k.lastPasteByte == '\r'
	k.lastPasteByte = c
	k.pasteBytes++
	switch {
	case k.markerDropped, k.pasteCut, pair: // two bytes are one line end
	case k.pasteBytes == maxEditedText:
		k.pasteCut = true
	case c == '\r' || c == '\n':
		k.pasteCut = !k.appendInput("\n", false)
	case c < ' ' && c != '\t' || c == '\x7f':
	default:
		k.pasteCut = !k.appendInput(string([]byte{c}), false)
	}
}

// appendInput adds to the input, and reports false if there was no room. always
// is for the end of a paste, without which the next keys would belong to it.
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
