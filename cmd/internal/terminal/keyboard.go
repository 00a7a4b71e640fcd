package terminal

import (
	"bytes"
	"io"
	"sync"
)

// Keys that no real keyboard has. The keyboard puts them into the stream of characters, and
// the editor removes them before anything else sees them.
const (
	keyPastedEnter = '\U000F0001' // a line end inside a paste that goes on
	keyPastedTab   = '\U000F0002' // a tab inside a paste: text, not a request to complete
	keyCancel      = '\U000F0003' // the line is no longer wanted
)

// The markers that a terminal sends around a paste after bracketOn.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	bracketOn   = "\x1b[?2004h"
	bracketOff  = "\x1b[?2004l"
)

const (
	ctrlC         = '\x03'
	ctrlG         = '\x07' // only closes a list of completions or a search
	ctrlZ         = '\x1a'
	ctrlBackslash = '\x1c'
)

// maxTypeAhead bounds the unread input, in bytes. More is dropped.
const maxTypeAhead = 1 << 20

// A keyboard is the terminal's input, with pastes recognised. It is read all the time:
// early input is kept, and Ctrl-C is noticed while code runs.
type keyboard struct {
	interrupt func()        // Ctrl-C was pressed while no line is edited
	suspend   func()        // Ctrl-Z was; nil if it does not suspend programs here
	quit      func()        // Ctrl-\ was pressed
	arrived   chan struct{} // one token: there is something to read

	mu      sync.Mutex
	editing bool   // guarded by mu: Ctrl-C belongs to the line that is edited
	typed   []byte // guarded by mu: decoded and not read
	err     error  // guarded by mu: the terminal's end

	// The rest belongs to pump.
	held    []byte // the beginning of what may be a marker
	pasting bool
	newline bool // a paste had a line end, and it is not known yet whether it goes on
	last    byte // of the paste
}

// newKeyboard returns a keyboard; the caller must start pump. Neither interrupt nor quit
// may block.
func newKeyboard(interrupt, quit, suspend func()) *keyboard {
	return &keyboard{interrupt: interrupt, quit: quit, suspend: suspend, arrived: make(chan struct{}, 1)}
}

// pump reads in until its end.
func (k *keyboard) pump(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.decode(buf[:n])
		if err != nil {
			k.end(err)
			return
		}
	}
}

// end lets Read fail once everything is read. The first error counts.
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

// edit sets whether a line is being edited.
func (k *keyboard) edit(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.editing = on
}

// put inserts s before all other input.
func (k *keyboard) put(s string) {
	k.mu.Lock()
	k.typed = append([]byte(s), k.typed...)
	k.mu.Unlock()
	k.wake()
}

// forget drops what was typed and not read.
func (k *keyboard) forget() {
	k.mu.Lock()
	k.typed = nil
	k.mu.Unlock()
}

// Read implements io.Reader, for one goroutine.
func (k *keyboard) Read(p []byte) (int, error) {
	for {
		k.mu.Lock()
		n, err := copy(p, k.typed), k.err
		k.typed = k.typed[n:]
		k.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		<-k.arrived
	}
}

// decode takes pastes apart. A marker may be split over any number of reads.
func (k *keyboard) decode(b []byte) {
	b = append(k.held, b...)
	k.held = nil
	for len(b) > 0 {
		marker := pasteBegins
		if k.pasting {
			marker = pasteEnds
		}
		i := bytes.IndexByte(b, '\x1b')
		switch {
		case i < 0:
			k.take(b)
			return
		case i > 0:
			k.take(b[:i])
			b = b[i:]
		}
		switch {
		case bytes.HasPrefix(b, []byte(marker)):
			k.endLine(true)
			k.pasting, k.last = !k.pasting, 0
			b = b[len(marker):]
		case len(b) < len(marker) && bytes.HasPrefix([]byte(marker), b):
			k.held = bytes.Clone(b)
			return
		default:
			k.take(b[:1])
			b = b[1:]
		}
	}
}

// take handles bytes that are not markers.
func (k *keyboard) take(b []byte) {
	for _, c := range b {
		if k.pasting {
			k.paste(c)
		} else {
			k.press(c)
		}
	}
}

// press handles a key.
func (k *keyboard) press(c byte) {
	if c == ctrlBackslash {
		k.quit()
		return
	}
	k.mu.Lock()
	editing := k.editing
	if c == ctrlC && !editing {
		k.typed = nil // early input was meant for the interrupted code
	}
	k.mu.Unlock()
	switch {
	case c == ctrlC && !editing:
		k.interrupt()
	case c == ctrlZ && !editing && k.suspend != nil:
		k.suspend()
	case c == ctrlC: // drops the whole line, even while a list is open
		k.add(string([]byte{ctrlG, ctrlC}))
	default:
		k.add(string([]byte{c}))
	}
}

// paste handles a byte of a paste, which is never a key.
func (k *keyboard) paste(c byte) {
	pair := c == '\n' && k.last == '\r'
	k.last = c
	switch {
	case pair: // one line end
	case c == '\r' || c == '\n':
		k.endLine(false)
		k.newline = true
	case c == '\t':
		k.endLine(false)
		k.add(string(keyPastedTab))
	case c < ' ' || c == '\x7f':
	default:
		k.endLine(false)
		k.add(string([]byte{c}))
	}
}

// endLine handles the line end before this point. The last one of a paste is like the Enter
// key.
func (k *keyboard) endLine(last bool) {
	if !k.newline {
		return
	}
	k.newline = false
	if last {
		k.add("\r")
	} else {
		k.add(string(keyPastedEnter))
	}
}

func (k *keyboard) add(s string) {
	k.mu.Lock()
	if len(k.typed)+len(s) <= maxTypeAhead {
		k.typed = append(k.typed, s...)
	}
	k.mu.Unlock()
	k.wake()
}
