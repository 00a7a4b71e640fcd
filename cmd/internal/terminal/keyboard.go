package terminal

import (
	"bytes"
	"io"
	"sync"
)

// Keys that no keyboard has. The keyboard puts them into the stream of
// characters, and the editor takes them out before anybody else sees them.
const (
	keyPastedEnter = '\U000F0001' // a line end inside of a paste that goes on
	keyPastedTab   = '\U000F0002' // a tab inside of a paste: text, not a request to complete
	keyCancel      = '\U000F0003' // nobody wants the line any more
)

// What a terminal sends around a paste, once asked to by bracketOn.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	bracketOn   = "\x1b[?2004h"
	bracketOff  = "\x1b[?2004l"
)

const (
	ctrlC         = '\x03'
	ctrlG         = '\x07' // gives up a list of completions or a search, and does nothing else
	ctrlZ         = '\x1a'
	ctrlBackslash = '\x1c'
)

// maxTypeAhead bounds what is typed before anybody reads it, in bytes. What is
// typed beyond that is dropped.
const maxTypeAhead = 1 << 20

// A keyboard is the terminal's input, with pastes recognised. It is read all the
// time: what nobody wants yet is kept, and Ctrl-C is noticed while code runs.
type keyboard struct {
	interrupt func()        // Ctrl-C was pressed while no line is edited
	suspend   func()        // Ctrl-Z was; nil where no program is suspended by it
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

// newKeyboard returns a keyboard that nobody types on; pump is to be started.
// Neither interrupt nor quit may block.
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
	default: // the reader will look anyway
	}
}

// edit says whether a line is edited from now on.
func (k *keyboard) edit(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.editing = on
}

// put lets the reader see s before anything else.
func (k *keyboard) put(s string) {
	k.mu.Lock()
	k.typed = append([]byte(s), k.typed...)
	k.mu.Unlock()
	k.wake()
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

// take takes in what is no marker.
func (k *keyboard) take(b []byte) {
	for _, c := range b {
		if k.pasting {
			k.paste(c)
		} else {
			k.press(c)
		}
	}
}

// press takes in a key.
func (k *keyboard) press(c byte) {
	if c == ctrlBackslash {
		k.quit()
		return
	}
	k.mu.Lock()
	editing := k.editing
	if c == ctrlC && !editing {
		k.typed = nil // what was typed ahead was for the code that is given up
	}
	k.mu.Unlock()
	switch {
	case c == ctrlC && !editing:
		k.interrupt()
	case c == ctrlZ && !editing && k.suspend != nil:
		k.suspend()
	case c == ctrlC: // the whole line, and not only what is open above it
		k.add(string([]byte{ctrlG, ctrlC}))
	default:
		k.add(string([]byte{c}))
	}
}

// paste takes in a byte of a paste, which cannot press keys.
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

// endLine decides what the line end before this point is: the paste's last one
// is like the Enter key.
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
