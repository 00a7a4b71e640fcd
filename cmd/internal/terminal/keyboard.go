package terminal

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/edit"
)

// The switches of bracketed paste: a terminal then sends edit.PasteBegins and edit.PasteEnds
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

// maxTypeAhead bounds the unread input, in bytes, and maxEdited that of a text that is edited, whose
// editor may be slower than a paste, and each paste. More is dropped.
const (
	maxTypeAhead = 1 << 20
	maxEdited    = 64 << 20
)

// maxControl bounds the sequence of one control character, in bytes.
const maxControl = 24

// pastePause is longer than any pause within a paste.
const pastePause = 250 * time.Millisecond

// A keyboard is the terminal's input, with pastes recognised. It is read all the time:
// early input is kept, and Ctrl-C is noticed while code runs. It implements edit.Source for one
// goroutine.
type keyboard struct {
	interrupt func()        // Ctrl-C was pressed while nothing is edited
	suspend   func()        // Ctrl-Z was; nil if it is the end of input here
	quit      func()        // Ctrl-\ was pressed
	recall    func()        // Ctrl-\ was pressed twice in a row, while a program has the keys
	arrived   chan struct{} // one token: there is something to read

	mu      sync.Mutex
	editing bool    // guarded by mu: Ctrl-C belongs to the text that is edited
	poked   bool    // guarded by mu: await returns at once
	typed   []byte  // guarded by mu: decoded and not read
	read    int     // guarded by mu: how many bytes were read before typed
	bursts  []burst // guarded by mu: of typed, in order
	err     error   // guarded by mu: the terminal's end

	passing sync.Mutex         // held while keys are passed on, so that they stay in order
	program func([]byte) error // guarded by passing: takes the keys; nil while they are ours
	quits   int                // guarded by passing: how often Ctrl-\ was pressed in a row

	decoding sync.Mutex  // guards the rest
	givesUp  *time.Timer // ends a paste in which Ctrl-C was pressed; nil if it was not
	pasting  bool
	matched  int    // bytes of what may be the next marker of a paste
	lost     bool   // there was no room for that marker, and so there is none for the paste
	cut      bool   // there was no room for a part of the paste, and so there is none for the rest
	last     byte   // of the paste
	pasted   int    // its bytes
	recent   []byte // the last bytes outside of a paste
	fresh    []byte // decoded from what was sent at a time,
	lastLine int    // behind its last end of a line
	lines    bool   // there is text behind an end of a line
}

// A burst is what a terminal sent at a time, if that was more than one byte.
type burst struct {
	from, end int  // its bytes, counted as keyboard.read
	lastLine  int  // behind its last end of a line
	lines     bool // there is text behind an end of a line
}

// newKeyboard returns a keyboard; the caller must start pump. Neither interrupt nor quit
// may block. suspend blocks while this program is stopped.
func newKeyboard(interrupt, quit, suspend func()) *keyboard {
	return &keyboard{interrupt: interrupt, quit: quit, suspend: suspend, arrived: make(chan struct{}, 1)}
}

// pump reads in until its end.
func (k *keyboard) pump(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.decode(k.pass(buf[:n]))
		if err != nil {
			k.end(err)
			return
		}
	}
}

// Burst implements edit.Source.
func (k *keyboard) Burst() edit.Burst {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.bursts) > 0 && k.bursts[0].end < k.read { // these are read
		k.bursts = k.bursts[1:]
	}
	if len(k.bursts) == 0 || k.read <= k.bursts[0].from {
		return edit.Burst{}
	}
	b := k.bursts[0]
	return edit.Burst{Followed: k.read < b.end, Ended: k.read < b.lastLine, Lines: b.lines}
}

// end lets Rune fail once everything is read. The first error counts.
func (k *keyboard) end(err error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
	}
	k.mu.Unlock()
	k.wake()
}

func (k *keyboard) wake() {
	select {
	case k.arrived <- struct{}{}:
	default: // the reader has a token already
	}
}

// edit sets whether a text is being edited.
func (k *keyboard) edit(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.editing = on
}

// poke lets await return, although no key was pressed.
func (k *keyboard) poke() {
	k.mu.Lock()
	k.poked = true
	k.mu.Unlock()
	k.wake()
}

// await waits for a key, and reports whether it was poked instead.
func (k *keyboard) await() (poked bool, err error) {
	for {
		k.mu.Lock()
		poked, ready, err := k.poked, len(k.typed) > 0, k.err
		k.poked = false
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

// more reports whether there are keys that were not read.
func (k *keyboard) more() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.typed) > 0
}

// forget drops what was typed and not read.
func (k *keyboard) forget() {
	k.mu.Lock()
	k.drop()
	k.mu.Unlock()
}

// drop returns what was typed and not read, and drops it; mu is held.
func (k *keyboard) drop() []byte {
	dropped := k.typed
	k.read += len(k.typed)
	k.typed = nil
	return dropped
}

// Rune implements edit.Source.
func (k *keyboard) Rune(patience time.Duration) (rune, error) {
	var late <-chan time.Time
	for {
		k.mu.Lock()
		r, n := utf8.DecodeRune(k.typed)
		if n > 0 && (utf8.FullRune(k.typed) || k.err != nil) {
			k.typed = k.typed[n:]
			k.read += n
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
			return 0, edit.ErrQuiet
		}
	}
}

// decode takes apart what the terminal sent at a time. A marker of a paste may be split over any
// number of reads.
func (k *keyboard) decode(b []byte) {
	if len(b) == 0 {
		return
	}
	k.decoding.Lock()
	defer k.decoding.Unlock()
	if k.givesUp != nil {
		k.givesUp.Stop()
		k.givesUp = nil
	}
	for _, c := range b {
		k.take(c)
	}
	k.deliver()
	if k.pasting && b[len(b)-1] == ctrlC {
		k.awaitEnd()
	}
}

// awaitEnd ends a paste if Ctrl-C was the last that came, and nothing follows: then a person has pressed
// it, because the terminal does not send the end.
func (k *keyboard) awaitEnd() {
	var timer *time.Timer
	timer = time.AfterFunc(pastePause, func() {
		k.decoding.Lock()
		defer k.decoding.Unlock()
		if k.givesUp == timer {
			k.givesUp = nil
			k.endPaste()
			k.take(ctrlC)
			k.deliver()
		}
	})
	k.givesUp = timer
}

// deliver lets what was decoded be read.
func (k *keyboard) deliver() {
	k.mu.Lock()
	from := k.read + len(k.typed)
	k.typed = append(k.typed, k.fresh...)
	if len(k.fresh) > 1 {
		k.bursts = append(k.bursts, burst{from, from + len(k.fresh), from + k.lastLine, k.lines})
	}
	k.fresh, k.lastLine, k.lines = k.fresh[:0], 0, false
	k.mu.Unlock()
	k.wake()
}

// take handles one byte.
func (k *keyboard) take(c byte) {
	if k.pasting {
		k.inPaste(c)
		return
	}
	lost := !k.press(c)
	k.recent = append(k.recent[max(0, len(k.recent)-maxControl):], c)
	if n, control := controlIn(k.recent, c); n > 0 && k.takeBack(n) {
		k.press(control)
	}
	if c == '\r' || c == '\n' {
		k.lastLine = len(k.fresh)
	} else {
		k.lines = k.lines || k.lastLine > 0
	}
	switch {
	case c == edit.PasteBegins[k.matched]:
		k.matched++
	case c == edit.PasteBegins[0]:
		k.matched, k.lost = 1, false
	default:
		k.matched = 0
	}
	k.lost = k.matched > 0 && (k.lost || lost)
	if k.matched == len(edit.PasteBegins) {
		k.matched, k.pasting, k.cut, k.last, k.pasted = 0, true, false, 0, 0
	}
}

// controlIn finds, at the end of what was sent, Ctrl-C, Ctrl-Z or Ctrl-\ as a sequence of length bytes. A
// terminal sends them so if a program has switched on kitty's keys or xterm's modifyOtherKeys, and is gone.
func controlIn(sent []byte, final byte) (length int, control byte) {
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

// takeBack removes the last n bytes of the input, and reports false if they are read already.
func (k *keyboard) takeBack(n int) bool {
	fresh := min(n, len(k.fresh))
	k.mu.Lock()
	defer k.mu.Unlock()
	if n-fresh > len(k.typed) {
		return false
	}
	k.typed = k.typed[:len(k.typed)-(n-fresh)]
	k.fresh = k.fresh[:len(k.fresh)-fresh]
	return true
}

// endPaste ends a paste.
func (k *keyboard) endPaste() {
	switch {
	case k.lost:
	case k.cut:
		k.append(edit.PasteCut, true)
	default:
		k.append(edit.PasteEnds, true)
	}
	k.pasting, k.matched, k.lost = false, 0, false
}

// inPaste looks for the end of a paste. An escape is no part of one.
func (k *keyboard) inPaste(c byte) {
	switch {
	case c == edit.PasteEnds[k.matched]:
		if k.matched++; k.matched < len(edit.PasteEnds) {
			return
		}
		k.endPaste()
		return
	case k.matched > 0:
		for _, held := range []byte(edit.PasteEnds[:k.matched]) {
			k.paste(held)
		}
		if k.matched = 0; c == edit.PasteEnds[0] {
			k.matched = 1
			return
		}
	}
	k.paste(c)
}

// press handles a key, and reports false if there was no room for it.
func (k *keyboard) press(c byte) bool {
	if c == ctrlBackslash {
		k.quit()
		return true
	}
	k.mu.Lock()
	editing := k.editing
	if c == ctrlC && !editing { // early input was meant for the interrupted code
		k.drop()
		k.fresh = nil
	}
	k.mu.Unlock()
	switch {
	case c == ctrlC && !editing:
		k.interrupt()
	case c == ctrlZ && k.suspend != nil:
		k.suspend()
	case c == ctrlZ:
		return k.append(string([]byte{ctrlD}), false)
	default:
		return k.append(string([]byte{c}), false)
	}
	return true
}

// paste handles a byte of a paste, which is never a key.
func (k *keyboard) paste(c byte) {
	pair := c == '\n' && k.last == '\r'
	k.last = c
	k.pasted++
	switch {
	case k.lost, k.cut, pair: // two bytes are one line end
	case k.pasted == maxEdited:
		k.cut = true
	case c == '\r' || c == '\n':
		k.cut = !k.append("\n", false)
	case c < ' ' && c != '\t' || c == '\x7f':
	default:
		k.cut = !k.append(string([]byte{c}), false)
	}
}

// append adds to the input, and reports false if there was no room. always
// is for the end of a paste, without which the next keys would belong to it.
func (k *keyboard) append(s string, always bool) bool {
	k.mu.Lock()
	limit := maxTypeAhead
	if k.editing {
		limit = maxEdited
	}
	room := always || len(k.typed)+len(k.fresh)+len(s) <= limit
	k.mu.Unlock()
	if room {
		k.fresh = append(k.fresh, s...)
	}
	return room
}
