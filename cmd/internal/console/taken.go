package console

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// setScreen gives the terminal to a program that has taken the keys, or takes it back. The printer
// calls it, so the change is in order with the program's output.
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
	if e.editing { // editing of the answer resumes after the program
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
		e.output.resetModes(true) // the program would still draw
	}
	_ = e.takeTerminal()
	if e.editing {
		e.painter.Begin(e.frame, e.output.cursorColumn())
	}
}

// giveScreen prepares the terminal for a full-screen program. The caller holds mu.
func (e *lineEditor) giveScreen() error {
	if !e.isPlain {
		_, _ = io.WriteString(os.Stdout, bracketOff)
	}
	return e.tty.SetFullyRaw()
}

func (e *lineEditor) sendToProgram(b []byte) error {
	err := e.programs.Keys(b)
	if session.KindOf(err) == session.KindStale {
		return errNoProgram
	}
	if err != nil {
		_, _ = io.WriteString(os.Stdout, "\a") // the program does not read its keys
	}
	return nil
}

const (
	// repaintDelay is the minimum time for which the screen has another size, and repaintTimeout is the maximum.
	repaintDelay   = 50 * time.Millisecond
	repaintTimeout = time.Second
)

// repaintPrograms makes programs redraw their screen by giving it another size for a moment.
// Programs with curses notice a new size only after a while, and draw nothing if the known size is
// back by then. Therefore the other size stays until they have written something.
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
