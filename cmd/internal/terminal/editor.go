package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/edit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Errors that end the editing of a text. io.EOF is Ctrl-D with nothing typed, or the end of
// the terminal.
var (
	errInterrupted = errors.New("terminal: Ctrl-C")
	errCancelled   = errors.New("terminal: nobody waits for the text any more")
)

// maxQuestions bounds the answers to a debugger that are remembered.
const maxQuestions = 200

// An editor lets the person edit one text at a time. All output goes through its Write. If
// a text is being edited, it is then drawn again below. code and answer are for one goroutine;
// any goroutine may call the rest.
type editor struct {
	keys     *keyboard
	mode     *mode
	plain    bool     // the terminal knows no control sequences
	program  string   // edits a text on Ctrl-X Ctrl-E; "" is none
	programs Programs // may take the keys; nil: none can
	repaint  func()   // lets a program draw its screen anew; mu is held
	file     history
	history  *edit.History // of code
	debugger *edit.History // of answers to one
	options  edit.Options  // that all texts share

	mu      sync.Mutex
	screen  *screen
	painter *edit.Painter  // guarded by mu
	view    edit.View      // guarded by mu: what is drawn
	editing bool           // guarded by mu
	wait    timeline.Seq   // guarded by mu: the wait that is being answered; 0 when none is
	dropped bool           // guarded by mu: that wait is over
	over    []timeline.Seq // guarded by mu: the last mostOver waits that are over
	open    timeline.Seq   // guarded by mu: the wait that has no answer yet; 0 when there is none
	coding  bool           // guarded by mu: code is being edited
	given   bool           // guarded by mu: a program has the keys
	refused bool           // guarded by mu: the person has taken them back, until the next prompt

	// The rest belongs to the goroutine that edits.
	line  edit.Editor
	typed bool // the last text was not empty

	wrote  chan struct{} // has an element when there was output
	closed chan struct{}
	wg     sync.WaitGroup
}

// newEditor prepares editing until ctx ends, which also ends a text that is
// being edited. The caller closes it.
//
// The terminal is in raw mode until then, also between the texts. So text that is typed
// while code runs is not shown before something reads it, such as a password that was
// typed too early. interrupt is called for a Ctrl-C while nothing is edited, and quit for
// Ctrl-\; neither may block.
func newEditor(ctx context.Context, o *Options, interrupt, quit func()) (*editor, error) {
	mode, err := findMode()
	if err != nil {
		return nil, fmt.Errorf("terminal: standard input is none: %w", err)
	}
	e := &editor{
		mode:     mode,
		plain:    o.Plain,
		program:  o.Editor,
		programs: o.Programs,
		repaint:  func() {},
		file:     history{o.HistoryPath},
		debugger: edit.NewHistory(maxQuestions),
		options:  edit.Options{Colour: o.Colour, Vi: o.Vi, Syntax: o.Syntax},
		screen:   &screen{out: os.Stdout},
		wrote:    make(chan struct{}, 1),
		closed:   make(chan struct{}),
	}
	e.painter = &edit.Painter{Out: os.Stdout, Dumb: o.Plain, Size: func() (cols, rows int) {
		s := WindowSize()
		return int(s.Cols), int(s.Rows)
	}}
	texts, _ := e.file.load() // the editor also works without its history
	e.history = edit.NewHistory(historyTexts, texts...)
	e.keys = newKeyboard(interrupt, quit, nil)
	e.keys.recall = func() {
		e.takeKeys(true)
		interrupt()
	}
	if suspends {
		e.keys.suspend = e.sleep
	}
	if err := e.takeTerminal(); err != nil {
		return nil, err
	}
	go e.keys.pump(e.mode.keys())
	e.wg.Go(func() {
		select {
		case <-ctx.Done():
			e.keys.end(io.EOF)
		case <-e.closed:
		}
	})
	return e, nil
}

// takeTerminal puts the terminal into the mode for editing.
func (e *editor) takeTerminal() error {
	if !e.plain {
		_, _ = io.WriteString(os.Stdout, bracketOn)
	}
	return e.mode.raw()
}

// giveTerminal restores the mode in which the terminal was found.
func (e *editor) giveTerminal() error {
	if !e.plain {
		_, _ = io.WriteString(os.Stdout, bracketOff)
	}
	return e.mode.restore()
}

// sleep gives the terminal to the shell until that brings this program to the
// foreground again. The code of the session may go on.
func (e *editor) sleep() {
	if canSuspend() {
		e.lend(suspend)
	}
}

// continued takes the terminal again after a stop that another program has caused.
func (e *editor) continued() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.mode.isTaken(): // sleep has done it
	case e.given:
		_ = e.giveScreen()
		e.repaint()
	default:
		_ = e.takeTerminal()
		if e.editing {
			e.screen.fresh()
			e.painter.Begin(e.view, 0)
		}
	}
}

// lend gives the terminal to another program while use runs. A text that is being edited is
// then drawn anew.
func (e *editor) lend(use func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.editing {
		e.painter.Finish("")
	}
	again := e.screen.leave()
	_ = e.giveTerminal()
	use()
	_ = e.takeTerminal()
	if e.given {
		e.screen.enter(again)
		_ = e.giveScreen()
		e.repaint()
	}
	if e.editing {
		e.screen.fresh()
		e.painter.Begin(e.view, 0)
	}
}

// close restores the terminal to its state before newEditor.
func (e *editor) close() {
	close(e.closed)
	e.wg.Wait()
	e.keys.end(io.EOF)
	e.screen.reset(true)
	_ = e.giveTerminal()
}

// Write implements io.Writer. A text that is being edited is drawn again below.
func (e *editor) Write(b []byte) (int, error) {
	select {
	case e.wrote <- struct{}{}:
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.editing {
		return e.screen.Write(b)
	}
	e.painter.Erase()
	n, err := e.screen.Write(b)
	e.painter.Begin(e.view, e.screen.column())
	return n, err
}

// freshLine puts the cursor into the first column.
func (e *editor) freshLine() {
	if e.screen.column() > 0 {
		_, _ = e.Write([]byte("\n"))
	}
}

// resized draws a text that is being edited for the new size of the window.
func (e *editor) resized() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.painter.Resized()
}

// code edits code until whole says that it is. Empty code is cancelled when another author's
// code asks for input.
func (e *editor) code(o edit.Options) (string, error) {
	e.screen.reset(false) // a program may have left it as it needed it
	if !e.plain {
		_, _ = io.WriteString(os.Stdout, bracketOn)
	}
	e.mu.Lock()
	e.coding, e.refused = true, false
	if e.open > 0 {
		e.keys.poke()
	}
	e.mu.Unlock()
	o.Colour, o.Vi, o.Syntax = e.options.Colour, e.options.Vi, e.options.Syntax
	text, err := e.edit(o, e.history)
	e.mu.Lock()
	e.coding = false
	e.mu.Unlock()
	if err == nil {
		e.history.Add(text)
		_ = e.file.add(text) // a full disk must not end the session
	}
	return text, err
}

// answer edits the answer to a wait, after the text that is on the screen already and
// prompt. An answer never gets into the file of the history; a secret one is not shown either.
func (e *editor) answer(w session.InputRequest, prompt string) (string, error) {
	e.mu.Lock()
	isOver := slices.Contains(e.over, w.ID) // since it was found
	e.wait, e.dropped = w.ID, false
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.wait = 0
		e.mu.Unlock()
	}()
	if isOver {
		return "", errCancelled
	}
	o := edit.Options{Vi: e.options.Vi, Prompt: prompt, Secret: w.Secret}
	if w.Kind != timeline.InputKindDebugger {
		return e.edit(o, nil)
	}
	text, err := e.edit(o, e.debugger)
	if err == nil {
		e.debugger.Add(text)
	}
	return text, err
}

// asked notes that wait has begun; 0 means that none is open.
func (e *editor) asked(wait timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = wait
	if e.coding && wait > 0 {
		e.keys.poke()
	}
}

// mostOver bounds the waits that are known to be over. Few end between a look at the session and its answer.
const mostOver = 8

// cancel ends the editing of the answer to wait, which is over.
func (e *editor) cancel(wait timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = append(e.over[max(len(e.over)+1-mostOver, 0):], wait)
	if e.open == wait {
		e.open = 0
	}
	if e.wait == wait {
		e.dropped = true
		e.keys.poke()
	}
}

// edit edits a text until a key ends it.
func (e *editor) edit(o edit.Options, h *edit.History) (string, error) {
	e.line.Begin(o, h)
	e.begin()
	e.keys.edit(true)
	defer e.keys.edit(false)
	for {
		poked, err := e.keys.await()
		if poked {
			if e.isOver() {
				return "", errCancelled
			}
			continue
		}
		var key edit.Key
		if err == nil {
			key, err = edit.ReadKey(e.keys, e.line.WantsEscape())
		}
		if err != nil {
			e.end("")
			return "", io.EOF
		}
		out := e.line.Press(key)
		if e.line.Rang() && !e.keys.more() {
			_, _ = io.WriteString(os.Stdout, "\a")
		}
		if text, err, over := e.after(out); over {
			return text, err
		}
	}
}

// after handles the outcome of a key. over means that the text is not edited any more.
func (e *editor) after(out edit.Outcome) (text string, err error, over bool) {
	text = e.line.Text()
	e.typed = text != ""
	switch out {
	case edit.Accepted:
		e.end("")
		return text, nil, true
	case edit.Interrupted:
		e.end("^C")
		return "", errInterrupted, true
	case edit.Ended:
		e.leave()
		return "", io.EOF, true
	case edit.Cleared:
		e.mu.Lock()
		e.screen.fresh()
		e.painter.Clear()
		e.mu.Unlock()
	case edit.External:
		e.elsewhere(text)
	}
	if !e.keys.more() { // what was typed ahead is drawn once
		e.draw()
	}
	return "", nil, false
}

// begin shows the text behind what is on the screen.
func (e *editor) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = true
	e.view = e.line.View()
	e.painter.Begin(e.view, e.screen.column())
}

func (e *editor) draw() {
	v := e.line.View()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view = v
	e.painter.Draw(v)
}

// end leaves the text and then mark on the screen.
func (e *editor) end(mark string) {
	e.draw()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = false
	e.painter.Finish(mark)
	e.screen.fresh()
}

// leave ends a text in which nothing was typed, and removes a prompt of ours.
func (e *editor) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = false
	if e.coding {
		e.painter.Finish("")
		e.screen.fresh()
		return
	}
	e.painter.Erase()
	if e.screen.column() > 0 {
		_, _ = e.screen.Write([]byte("\n"))
	}
}

// isOver reports whether nobody waits for the text any more, and ends it then.
func (e *editor) isOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.typed = e.line.Text() != ""
	asked := e.coding && e.open > 0 && !e.typed
	switch {
	case asked: // the answer is typed after the question
		e.painter.Erase()
	case e.dropped && e.wait > 0:
		e.painter.Finish("")
		e.screen.fresh()
	default:
		return false
	}
	e.editing = false
	return true
}

// WindowSize returns the size of the terminal, or the usual one if it is unknown.
func WindowSize() session.Size {
	cols, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return session.Size{Rows: 24, Cols: 80}
	}
	return session.Size{Rows: uint16(min(rows, math.MaxUint16)), Cols: uint16(min(cols, math.MaxUint16))}
}
