// Package keyrelay connects a user's terminal to the programs of a session that is elsewhere. Each
// key is typed for the program, and the screen of the session is drawn. The session's own control
// sequences are never written, so nothing in its output acts on the terminal.
//
// Run starts no goroutines.
package keyrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// drawInterval is the time between two looks at the screen.
const drawInterval = 50 * time.Millisecond

// A KeyRelay has the streams of one relay.
type KeyRelay struct {
	Session session.TerminalAccess
	Keys    <-chan []byte         // what the user types; closed when the user leaves
	Out     io.Writer             // the terminal
	Rows    func() int            // of the terminal
	Release func()                // called at the end, before the screen shows it: later keys are not for the program
	Drawn   func(fullScreen bool) // called after each new drawing
}

// Run relays keys until the user leaves, no program takes keys, or ctx ends. It uses the alternate
// screen. An error is a reason that the user does not expect.
func (r *KeyRelay) Run(ctx context.Context) error {
	_, _ = io.WriteString(r.Out, "\x1b[?1049h\x1b[?7l\x1b[2J")
	defer func() {
		r.Release()
		_, _ = io.WriteString(r.Out, "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")
	}()
	look := time.NewTicker(drawInterval)
	defer look.Stop()
	shown := ""
	for {
		screen, err := r.Session.Screen(ctx)
		if err != nil {
			return expectedEnd(err)
		}
		if drawing := drawScreen(screen, r.Rows()); drawing != shown {
			_, _ = io.WriteString(r.Out, drawing)
			shown = drawing
			r.Drawn(screen.FullScreen)
		}
		select {
		case <-ctx.Done():
			return nil
		case b, ok := <-r.Keys:
			if !ok {
				return nil
			}
			if _, err := r.Session.Type(ctx, session.Keys{Bytes: b, Live: true}); err != nil {
				return expectedEnd(err)
			}
		case <-look.C:
		}
	}
}

// expectedEnd returns nil for an error that only says that no program takes keys.
func expectedEnd(err error) error {
	if errors.Is(err, session.ErrStale) || errors.Is(err, session.ErrWaiting) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drawScreen returns what draws a screen at a terminal with some rows. Highlights are in reverse
// video.
func drawScreen(s session.Screen, rows int) string {
	var b strings.Builder
	b.WriteString("\x1b[?25l\x1b[H")
	first := max(0, len(s.Lines)-rows) // the terminal may have become smaller
	for i, line := range s.Lines[first:] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	for _, h := range s.Highlights {
		if h.Row > first {
			fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[7m%s\x1b[27m", h.Row-first, max(h.Col, 1), h.Text)
		}
	}
	fmt.Fprintf(&b, "\x1b[%d;%dH", max(s.CursorRow-first, 1), max(s.CursorCol, 1))
	if !s.CursorHidden {
		b.WriteString("\x1b[?25h")
	}
	return b.String()
}

// drawingEnd matches what only a drawing contains: a new place of the cursor, the removal of text, or
// a switch to or from the alternate screen.
var drawingEnd = text.Pattern(`\x1b(?:\[[0-9;]*[A-HJLMSTXdf]|[78M]|\[\?(?:1049|1047|47)[hl])`)

// AfterDrawing returns the end of some output: the text that follows a drawing. A program may end
// without leaving the alternate screen, and then code prints there.
func AfterDrawing(output []byte) []byte {
	if ends := drawingEnd().FindAllIndex(output, -1); ends != nil {
		return output[ends[len(ends)-1][1]:]
	}
	return output
}
