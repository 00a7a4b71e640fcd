package session

import (
	"context"
	"fmt"
	"strings"
)

// TerminalAccess is the part of a Session for callers that type for the programs at the worker's
// terminal, and see what these have drawn.
//
// A program that reads the terminal is in one of three states. It waits for input: there is an
// InputRequest. It listens: a Listener is reported, but it also does other things. Or it is unseen,
// because it reads only now and then, or the system does not show it. Type works in all three.
type TerminalAccess interface {
	// Type types keys for the programs of the active turn, and returns that turn. It ends an open
	// InputRequest of such a program, and returns before the keys are typed. A named key is typed
	// once the program has handled the keys before it, or 0.2 s later.
	//
	// Nothing is typed without a program that could read it: between turns the error is ErrStale.
	// If the runtime itself asks for input, it is ErrWaiting. Answer is for that.
	// ErrUnsupported means that the system lacks a terminal of this kind.
	Type(ctx context.Context, keys Keys) (turn uint64, err error)

	// Screen returns the screen of the terminal during the active turn. Between turns the error
	// is ErrStale.
	Screen(ctx context.Context) (Screen, error)

	// Resize sets the size of the worker's terminal.
	Resize(ctx context.Context, size Size) error
}

// Keys are typed for a program at the terminal. Text and Bytes are exclusive.
type Keys struct {
	// Text is text with named keys, such as "yes<Enter>" or "<Down><Down><C-c>". The names come
	// from Vim. They are:
	//
	//	<Enter> <Tab> <S-Tab> <Esc> <Space> <BS> <Del> <Ins> <F1> to <F12>
	//	<Up> <Down> <Left> <Right> <Home> <End> <PgUp> <PgDn>
	//	<C-x> for Ctrl and a character, <M-x> for Alt, <lt> for "<"
	//
	// Nothing is added, such as an Enter. A line break
	// is an Enter, unless the program takes several lines as one paste.
	Text string `json:"text,omitempty"`

	// Bytes are typed as they are.
	Bytes []byte `json:"bytes,omitempty"`

	// Secret keeps the keys out of the timeline.
	Secret bool `json:"secret,omitempty"`

	// Live is for the keys of a user, while they are pressed. They are typed at once, and only if
	// a program listens or waits; otherwise the error is ErrStale. Live keys without Text and
	// Bytes only ask whether one does.
	Live bool `json:"live,omitempty"`
}

// MaxKeysBytes bounds the keys of one Type, in bytes.
const MaxKeysBytes = 64 << 10

// A Listener is a program that would read keys now, although it does not wait for them.
type Listener struct {
	Program string `json:"program"`       // its name, of at most 15 bytes
	Raw     bool   `json:"raw,omitempty"` // it reads each key, not lines
}

// A Screen is what the programs of a turn show on the terminal.
type Screen struct {
	Lines        []string    `json:"lines"` // from the top, without trailing blanks and without blank lines at the bottom
	Rows         int         `json:"rows"`  // the size of the terminal in characters
	Cols         int         `json:"cols"`
	CursorRow    int         `json:"cursor_row"` // from 1
	CursorCol    int         `json:"cursor_col"` // from 1
	CursorHidden bool        `json:"cursor_hidden,omitempty"`
	FullScreen   bool        `json:"full_screen,omitempty"` // a program has switched to the alternate screen
	Highlights   []Highlight `json:"highlights,omitempty"`  // such as the selected entry of a menu; at most 16
	Program      string      `json:"program,omitempty"`     // the program that reads the terminal, if it is seen
}

// A Highlight is text that a program has drawn in reverse video or with a background of its own.
type Highlight struct {
	Row  int    `json:"row"` // from 1
	Col  int    `json:"col"` // from 1
	Text string `json:"text"`
}

// maxShownHighlights bounds the highlights in a screen's description.
const maxShownHighlights = 4

// RenderText returns the lines, and a last line in brackets that describes the screen.
func (s Screen) RenderText() string {
	var b strings.Builder
	for _, line := range s.Lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	b.WriteByte('[')
	b.WriteString(s.Describe())
	b.WriteByte(']')
	return b.String()
}

// Describe describes the screen in one line: its size, its cursor, and what is highlighted.
func (s Screen) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "screen %dx%d, cursor at line %d, column %d", s.Cols, s.Rows, s.CursorRow, s.CursorCol)
	if s.FullScreen {
		b.WriteString(", full screen")
	}
	for i, h := range s.Highlights {
		if i == maxShownHighlights {
			fmt.Fprintf(&b, " and %d more", len(s.Highlights)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; highlighted: "
		}
		fmt.Fprintf(&b, "%sline %d %q", separator, h.Row, h.Text)
	}
	return b.String()
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }
