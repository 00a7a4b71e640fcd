package terminal

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// setScreen gives the terminal to a program that has taken the keys, or takes it back. It is
// called by the printer, so in order with what the program writes.
func (e *editor) setScreen(taken bool) {
	switch {
	case e.programs == nil:
	case taken:
		e.giveKeys()
	default:
		e.takeKeys(false)
	}
}

func (e *editor) giveKeys() {
	e.mu.Lock()
	if e.given || e.refused {
		e.mu.Unlock()
		return
	}
	if e.editing { // what is being answered comes back after the program
		e.painter.Erase()
	}
	e.given = true
	_ = e.giveScreen()
	e.screen.hold()
	e.mu.Unlock()
	e.keys.give(e.toProgram)
}

// takeKeys takes the keys back. refused means that no program gets them again until the next
// prompt.
func (e *editor) takeKeys(refused bool) {
	e.keys.give(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.given {
		return
	}
	e.given, e.refused = false, refused
	e.screen.release()
	if refused {
		e.screen.reset(true) // it would still draw
	}
	_ = e.takeTerminal()
	if e.editing {
		e.painter.Begin(e.view, e.screen.column())
	}
}

// giveScreen makes the terminal one for a program that draws on all of it; mu is held.
func (e *editor) giveScreen() error {
	if !e.plain {
		_, _ = io.WriteString(os.Stdout, bracketOff)
	}
	return e.mode.exact()
}

func (e *editor) toProgram(b []byte) error {
	err := e.programs.Keys(b)
	if session.KindOf(err) == session.KindStale {
		return errNotTaken
	}
	if err != nil {
		_, _ = io.WriteString(os.Stdout, "\a") // it does not read
	}
	return nil
}

const (
	// repaintPause is for how long a program has another size at least, and repaintPatience at
	// most.
	repaintPause    = 50 * time.Millisecond
	repaintPatience = time.Second
)

// repaint makes programs draw anew what they have on the screen. They do so when it gets another
// size. Those that use curses look at the size when they come to it, and draw nothing if it is
// the one that they know: so the other size stays until they have written something.
func repaint(ctx context.Context, s session.Session, wrote <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, repaintPatience)
	defer cancel()
	select {
	case <-wrote:
	default:
	}
	size := WindowSize()
	_ = s.Resize(ctx, session.Size{Rows: max(size.Rows, 2) - 1, Cols: size.Cols})
	pause := time.NewTimer(repaintPause)
	defer pause.Stop()
	select {
	case <-wrote:
	case <-ctx.Done():
	}
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	_ = s.Resize(context.WithoutCancel(ctx), WindowSize())
}
