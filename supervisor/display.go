package supervisor

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/supervisor/internal/vt"
)

// maxPlainBytes bounds the plain text that is kept in case a screen is needed later, in bytes.
const maxPlainBytes = 8 << 10

// A display is the screen of a worker's terminal during one turn. Most turns print plain text, so the
// screen is made when a program first draws, or when somebody needs it.
type display struct {
	answer           func([]byte) // sends what the terminal answers to queries of programs; does not block
	returnsOnNewline func() bool

	mu      sync.Mutex
	size    pty.TerminalSize
	screen  *vt.Emulator  // nil until it is needed
	plain   []byte        // the end of the plain text before that
	drawn   bool          // a program has moved the cursor
	changed chan struct{} // closed at the next change; nil without a waiter
}

func newDisplay(size pty.TerminalSize, returnsOnNewline func() bool, answer func([]byte)) *display {
	return &display{size: size.OrDefault(), returnsOnNewline: returnsOnNewline, answer: answer}
}

// write adds output. The stream merger calls it in order.
func (d *display) write(b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.screen == nil && isPlain(b) {
		d.plain = append(d.plain, b[max(0, len(b)-maxPlainBytes):]...)
		if over := len(d.plain) - maxPlainBytes; over > 0 {
			d.plain = d.plain[:copy(d.plain, d.plain[over:])]
		}
	} else {
		d.drawn = d.drawn || !isPlain(b)
		screen := d.screenLocked()
		if bytes.IndexByte(b, '\n') >= 0 {
			screen.SetReturnOnNewline(d.returnsOnNewline())
		}
		screen.Write(b)
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// isPlain reports whether text only adds to the last line and begins new ones.
func isPlain(b []byte) bool {
	return bytes.IndexByte(b, 0x1b) < 0 && bytes.IndexByte(b, '\r') < 0 && bytes.IndexByte(b, '\b') < 0
}

// screenLocked returns the screen, and makes it if necessary. Queries in earlier text are not answered,
// because no program still waits for them.
func (d *display) screenLocked() *vt.Emulator {
	if d.screen == nil {
		answers := false
		d.screen = vt.New(int(d.size.Rows), int(d.size.Cols), func(b []byte) {
			if answers {
				d.answer(b)
			}
		})
		d.screen.SetReturnOnNewline(true)
		d.screen.Write(d.plain)
		d.plain = nil
		answers = true
	}
	return d.screen
}

// clear empties the screen for the next turn.
func (d *display) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.screen, d.plain, d.drawn = nil, nil, false
}

func (d *display) resize(size pty.TerminalSize) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size = size.OrDefault(); d.screen != nil {
		d.screen.Resize(int(d.size.Rows), int(d.size.Cols))
	}
}

// awaitChange returns a channel that is closed at the next output.
func (d *display) awaitChange() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.changed
}

// modes returns how keys must be sent to the program.
func (d *display) modes() vt.Modes {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.screen == nil {
		return vt.Modes{}
	}
	return d.screen.Modes()
}

// hints returns what the screen tells about a program that reads single keys.
func (d *display) hints() screenHints {
	d.mu.Lock()
	defer d.mu.Unlock()
	screen := d.screenLocked()
	modes := screen.Modes()
	h := screenHints{drawn: d.drawn, takesPastes: modes.BracketedPaste}
	if modes.Alternate { // the cursor's line is hardly a prompt
		return h
	}
	h.prompt = screen.CursorLine()
	if !strings.ContainsFunc(h.prompt, unicode.IsLetter) {
		shot := screen.Snapshot()
		if above := shot.CursorRow - 1; above >= 0 {
			h.question = shot.Lines[above]
		}
	}
	return h
}

// An echoMark is what the screen showed before text was typed.
type echoMark struct {
	before string // the text on the left of the cursor
	count  int    // how often the typed text was on the screen
}

func (d *display) markEcho(typed string) echoMark {
	d.mu.Lock()
	defer d.mu.Unlock()
	screen := d.screenLocked()
	return echoMark{before: screen.TextBeforeCursor(), count: screen.CountText(typed)}
}

// showsTyped reports whether the program shows text that was typed since mark. The text must be on the
// left of the cursor. Text elsewhere may have been there before, such as an entry of a menu, which an
// Enter would choose. A program that hides the cursor and draws its own must show the text once more.
func (d *display) showsTyped(typed string, mark echoMark) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	screen := d.screenLocked()
	modes := screen.Modes()
	switch {
	case modes.Alternate:
		return false
	case modes.CursorHidden:
		return len(typed) > 1 && screen.CountText(typed) > mark.count
	}
	left := screen.TextBeforeCursor()
	return left != mark.before && (strings.HasSuffix(left, typed) || strings.HasSuffix(left, maskOf(typed, left)))
}

// maskOf returns what a program shows in place of a secret, if left ends with it: one mark for each
// character.
func maskOf(typed, left string) string {
	mark, _ := utf8.DecodeLastRuneInString(left)
	if !strings.ContainsRune("*•●∙·", mark) {
		return typed
	}
	return strings.Repeat(string(mark), utf8.RuneCountInString(typed))
}

// picture returns the screen as clients see it.
func (d *display) picture() session.Screen {
	d.mu.Lock()
	defer d.mu.Unlock()
	shot := d.screenLocked().Snapshot()
	s := session.Screen{
		Lines: shot.Lines, Rows: shot.Rows, Cols: shot.Columns,
		CursorRow: shot.CursorRow + 1, CursorCol: shot.CursorCol + 1,
		CursorHidden: shot.CursorHidden, FullScreen: shot.Alternate,
	}
	for len(s.Lines) > 0 && s.Lines[len(s.Lines)-1] == "" {
		s.Lines = s.Lines[:len(s.Lines)-1]
	}
	for _, h := range shot.Highlights {
		s.Highlights = append(s.Highlights, session.Highlight{Row: h.Row + 1, Col: h.Col + 1, Text: h.Text})
	}
	return s
}
