package terminal

import (
	"bytes"
	"io"
	"sync/atomic"
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

// A keyboard is what the line editor reads: the terminal's input, with pastes
// recognised, and what the program itself puts in. Read is for one goroutine;
// put is for any.
type keyboard struct {
	wanted chan struct{} // one token: somebody reads
	typed  chan keystrokes
	extra  chan []byte // put by the program; bounded, see put

	// editing says that the terminal is in raw mode, where an end of file is
	// the terminal's own; otherwise somebody typed Ctrl-D and nobody asked.
	editing atomic.Bool

	// The rest belongs to the goroutine that reads.
	asked   bool   // a token is out and not answered
	ready   []byte // decoded and not read
	held    []byte // the beginning of what may be a marker
	pasting bool
	newline bool // a paste had a line end, and it is not known yet whether it goes on
	last    byte // of the paste
}

type keystrokes struct {
	data []byte
	err  error
}

// newKeyboard reads in, on demand only.
func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{
		wanted: make(chan struct{}, 1),
		typed:  make(chan keystrokes, 1),
		extra:  make(chan []byte, 8),
	}
	go k.pump(in)
	return k
}

func (k *keyboard) pump(in io.Reader) {
	buf := make([]byte, 4096)
	for range k.wanted {
		n, err := in.Read(buf)
		if err == io.EOF && !k.editing.Load() {
			err = nil
		}
		k.typed <- keystrokes{bytes.Clone(buf[:n]), err}
	}
}

// close ends the pump as soon as its read, if any, returns.
func (k *keyboard) close() { close(k.wanted) }

// put lets the reader see b next. It drops b when eight others wait: whoever
// reads has more than enough reason to look up then.
func (k *keyboard) put(b string) {
	select {
	case k.extra <- []byte(b):
	default:
	}
}

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.ready) == 0 {
		select { // what the program put in goes first
		case b := <-k.extra:
			k.ready = append(k.ready, b...)
			continue
		default:
		}
		if !k.asked {
			k.wanted <- struct{}{}
			k.asked = true
		}
		select {
		case b := <-k.extra:
			k.ready = append(k.ready, b...)
		case t := <-k.typed:
			k.asked = false
			k.decode(t.data)
			if t.err != nil && len(k.ready) == 0 {
				return 0, t.err
			}
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
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

// take adds plain input.
func (k *keyboard) take(b []byte) {
	if !k.pasting {
		k.ready = append(k.ready, b...)
		return
	}
	for _, c := range b {
		pair := c == '\n' && k.last == '\r'
		k.last = c
		switch {
		case pair: // one line end
		case c == '\r' || c == '\n':
			k.endLine(false)
			k.newline = true
		case c == '\t':
			k.endLine(false)
			k.ready = append(k.ready, string(keyPastedTab)...)
		case c < ' ' || c == '\x7f': // a paste cannot press keys
		default:
			k.endLine(false)
			k.ready = append(k.ready, c)
		}
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
		k.ready = append(k.ready, '\r')
	} else {
		k.ready = append(k.ready, string(keyPastedEnter)...)
	}
}
