package console

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// setScreen gives the terminal to a program that has taken the keys, or takes it back. It is
// called by the printer, so in order with what the program writes.
func (e *lineEditor) setScreen(taken bool) {
	switch {
	case e.programs == nil:
	case taken:
		e.giveKeys()
	default:
		e.takeKeys(false)
	}
}

func (e *lineEditor) giveKeys() {
	e.mu.Lock()
	if e.keysGiven || e.keysRefused {
		e.mu.Unlock()
		return
	}
	if e.editing { // what is being answered comes back after the program
		e.painter.Erase()
	}
	e.keysGiven = true
	_ = e.giveScreen()
	e.output.saveLine()
	e.mu.Unlock()
	e.keys.setProgram(e.sendToProgram)
}

// takeKeys takes the keys back. refused means that no program gets them again until the next
// prompt.
func (e *lineEditor) takeKeys(refused bool) {
	e.keys.setProgram(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.keysGiven {
		return
	}
	e.keysGiven, e.keysRefused = false, refused
	e.output.restoreLine()
	if refused {
		e.output.resetModes(true) // it would still draw
	}
	_ = e.takeTerminal()
	if e.editing {
		e.painter.Begin(e.frame, e.output.cursorColumn())
	}
}

// giveScreen makes the terminal one for a program that draws on all of it; mu is held.
func (e *lineEditor) giveScreen() error {
	if !e.isPlain {
		_, _ = io.WriteString(os.Stdout, bracketOff)
	}
	return e.tty.setFullyRaw()
}

func (e *lineEditor) sendToProgram(b []byte) error {
	err := e.programs.Keys(b)
	if session.KindOf(err) == session.KindStale {
		return errNoProgram
	}
	if err != nil {
		_, _ = io.WriteString(os.Stdout, "\a") // it does not read
	}
	return nil
}

const (
	// repaintDelay is for how long a program has another size at least, and repaintTimeout at
	// most.
	repaintDelay   = 50 * time.Millisecond
	repaintTimeout = time.Second
)

// repaintPrograms makes programs draw anew what they have on the screen. They do so when it gets another
// size. Those that use curses look at the size when they come to it, and draw nothing if it is
// the one that they know: so the other size stays until they have written something.
func repaintPrograms(ctx context.Context, s session.Session, wrote <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, repaintTimeout)
	defer cancel()
	select {
	case <-wrote:
	default:
	}
	size := WindowSize()
	_ = s.Resize(ctx, session.Size{Rows: max(size.Rows, 2) - 1, Cols: size.Cols})
	pause := time.NewTimer(repaintDelay)
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
