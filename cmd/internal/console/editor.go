package console

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

	"github.com/turnstone-repl/turnstone/cmd/internal/console/historyfile"
	"github.com/turnstone-repl/turnstone/cmd/internal/console/ttymode"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Errors that end the editing of a text. io.EOF means Ctrl-D on an empty line, or the end of the
// terminal.
var (
	errInterrupted = errors.New("console: Ctrl-C")
	errCancelled   = errors.New("console: the text is no longer needed")
)

// maxDebuggerHistory bounds the remembered answers to a debugger.
const maxDebuggerHistory = 200

// A lineEditor lets the user edit one text at a time. All output goes through its Write, which
// redraws the edited text below it. editCode and editAnswer are for one goroutine; any goroutine
// may call the rest.
type lineEditor struct {
	keys            *keyReader
	tty             *ttymode.TTY
	isPlain         bool             // the terminal knows no control sequences
	editorCommand   string           // edits a text on Ctrl-X Ctrl-E; "" disables it
	programs        TerminalPrograms // may take the keys; nil if no program can
	repaint         func()           // lets a program redraw its screen; called with mu locked
	historyFile     historyfile.TextFile
	history         *lineedit.History // of code
	debuggerHistory *lineedit.History // of answers to a debugger
	options         lineedit.Options  // shared by all texts

	mu          sync.Mutex
	output      *outputTracker
	painter     *lineedit.Painter // guarded by mu
	frame       lineedit.Frame    // guarded by mu: what is drawn
	editing     bool              // guarded by mu
	requests    requestState      // guarded by mu
	editingCode bool              // guarded by mu: code is being edited
	relay       relayState        // guarded by mu
	keysGiven   bool              // guarded by mu: a program has the keys
	keysRefused bool              // guarded by mu: the user has taken them back, until the next prompt

	// The rest belongs to the editing goroutine.
	line         lineedit.Editor
	lastNotEmpty bool // the last text was not empty

	outputArrived chan struct{} // has an element when there was output
	closed        chan struct{}
	wg            sync.WaitGroup
}

// A requestState records which input requests are open, answered and closed.
type requestState struct {
	open      timeline.Seq   // has no answer yet; 0 if none
	answering timeline.Seq   // its answer is being edited; 0 if none
	dropped   bool           // the request being answered is over
	closed    []timeline.Seq // the last maxClosedRequests requests that are over
}

// newLineEditor prepares editing until ctx ends, which also ends a text that is being edited. The
// caller closes it.
//
// The terminal is in raw mode until then, also between the texts. Text typed while code runs is
// therefore not shown before something reads it, such as a password typed too early. interrupt is
// called for a Ctrl-C while no text is edited, and quit for Ctrl-\; neither may block.
func newLineEditor(ctx context.Context, o *Options, interrupt, quit func()) (*lineEditor, error) {
	mode, err := ttymode.Open()
	if err != nil {
		return nil, fmt.Errorf("standard input is not a terminal: %w", err)
	}
	e := &lineEditor{
		tty:             mode,
		isPlain:         o.Plain,
		editorCommand:   o.EditorCommand,
		programs:        o.Programs,
		repaint:         func() {},
		historyFile:     historyfile.TextFile{Path: o.HistoryPath},
		debuggerHistory: lineedit.NewHistory(maxDebuggerHistory),
		options:         lineedit.Options{Colour: o.Colour, Vi: o.ViKeys, Syntax: o.Syntax},
		output:          &outputTracker{out: os.Stdout},
		relay:           relayState{asked: make(chan struct{}, 1)},
		outputArrived:   make(chan struct{}, 1),
		closed:          make(chan struct{}),
	}
	e.painter = &lineedit.Painter{Out: relayGate{e}, Dumb: o.Plain, Size: func() (cols, rows int) {
		s := WindowSize()
		return int(s.Cols), int(s.Rows)
	}}
	texts, _ := e.historyFile.LoadTexts() // the editor also works without its history
	e.history = lineedit.NewHistory(historyfile.MaxTexts, texts...)
	e.keys = newKeyReader(interrupt, quit, nil)
	e.keys.reclaim = func() {
		e.takeKeys(true)
		e.endRelay()
		interrupt()
	}
	if o.SessionStays && !o.Plain {
		e.keys.relay = e.askForRelay
	}
	if ttymode.CtrlZSuspends {
		e.keys.suspend = e.suspendToShell
	}
	if err := e.takeTerminal(); err != nil {
		return nil, err
	}
	go e.keys.pumpInput(e.tty.InputReader())
	e.wg.Go(func() {
		select {
		case <-ctx.Done():
			e.keys.failReads(io.EOF)
		case <-e.closed:
		}
	})
	return e, nil
}

// takeTerminal puts the terminal into the mode for editing.
func (e *lineEditor) takeTerminal() error {
	if !e.isPlain {
		_, _ = io.WriteString(os.Stdout, bracketOn)
	}
	return e.tty.SetRaw()
}

// giveTerminal restores the mode that the terminal had before.
func (e *lineEditor) giveTerminal() error {
	if !e.isPlain {
		_, _ = io.WriteString(os.Stdout, bracketOff)
	}
	return e.tty.RestoreMode()
}

// suspendToShell gives the terminal to the shell until the shell continues this program. The
// session's code may keep running.
func (e *lineEditor) suspendToShell() {
	if ttymode.CanSuspend() {
		e.lendTerminal(ttymode.SuspendProcessGroup)
	}
}

// resumeTerminal takes the terminal again after another program has stopped this one.
func (e *lineEditor) resumeTerminal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.tty.IsRaw(): // suspendToShell has done it
	case e.keysGiven:
		_ = e.giveScreen()
		e.repaint()
	default:
		_ = e.takeTerminal()
		if e.editing {
			e.output.markLineStart()
			e.painter.Begin(e.frame, 0)
		}
	}
}

// lendTerminal gives the terminal to another program while use runs. Afterwards it redraws a text
// that is being edited.
func (e *lineEditor) lendTerminal(use func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.editing {
		e.painter.Finish("")
	}
	again := e.output.disableModes()
	_ = e.giveTerminal()
	use()
	_ = e.takeTerminal()
	if e.keysGiven {
		e.output.enableModes(again)
		_ = e.giveScreen()
		e.repaint()
	}
	if e.editing {
		e.output.markLineStart()
		e.painter.Begin(e.frame, 0)
	}
}

// close restores the terminal to its state before newLineEditor.
func (e *lineEditor) close() {
	close(e.closed)
	e.wg.Wait()
	e.keys.failReads(io.EOF)
	e.output.resetModes(true)
	_ = e.giveTerminal()
}

// Write implements io.Writer. It redraws a text that is being edited below the output.
func (e *lineEditor) Write(b []byte) (int, error) {
	select {
	case e.outputArrived <- struct{}{}:
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.relay.addOutput(b) {
		return len(b), nil
	}
	if !e.editing {
		return e.output.Write(b)
	}
	e.painter.Erase()
	n, err := e.output.Write(b)
	e.painter.Begin(e.frame, e.output.cursorColumn())
	return n, err
}

// startNewLine moves the cursor to the first column.
func (e *lineEditor) startNewLine() {
	if e.output.cursorColumn() > 0 {
		_, _ = e.Write([]byte("\n"))
	}
}

// handleResize redraws a text that is being edited for the new size of the window.
func (e *lineEditor) handleResize() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.painter.Resized()
}

// editCode edits code until it is complete by the options. Empty code is cancelled when another
// author's code requests input.
func (e *lineEditor) editCode(o lineedit.Options) (string, error) {
	e.output.resetModes(false) // a program may have left modes on
	if !e.isPlain {
		_, _ = io.WriteString(os.Stdout, bracketOn)
	}
	e.mu.Lock()
	e.editingCode, e.keysRefused = true, false
	if e.requests.open > 0 {
		e.keys.wakeReader()
	}
	e.mu.Unlock()
	o.Colour, o.Vi, o.Syntax = e.options.Colour, e.options.Vi, e.options.Syntax
	e.keys.dropSecretRest()
	text, err := e.editText(o, e.history)
	e.mu.Lock()
	e.editingCode = false
	e.mu.Unlock()
	if mark, marked := e.keys.markOfEdited(); err == nil && marked && text != "" {
		e.returnLine(text, mark)
		return "", nil
	}
	if err == nil {
		e.history.Add(text)
		_ = e.historyFile.AppendText(text) // a full disk must not end the session
	}
	return text, err
}

// returnLine keeps a line that no program takes for Ctrl-Y, and tells the user.
func (e *lineEditor) returnLine(text string, m programMark) {
	if !m.secret {
		e.line.StoreKill(text)
	}
	e.startNewLine()
	_, _ = fmt.Fprintf(e, "[%s]\n", m.explainLine())
}

// editAnswer edits the answer to an input request, after the text on the screen and the prompt.
// Answers are never saved in the history file; secret answers are not shown either.
func (e *lineEditor) editAnswer(w session.InputRequest, prompt string) (string, error) {
	e.mu.Lock()
	isOver := slices.Contains(e.requests.closed, w.ID) // the request may have ended since the caller found it
	e.requests.answering, e.requests.dropped = w.ID, false
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.requests.answering = 0
		e.mu.Unlock()
	}()
	if isOver {
		return "", errCancelled
	}
	o := lineedit.Options{Vi: e.options.Vi, Prompt: prompt, Secret: w.Secret}
	var history *lineedit.History
	if w.Kind == timeline.InputKindDebugger {
		history = e.debuggerHistory
	}
	text, err := e.editText(o, history)
	switch {
	case errors.Is(err, errCancelled): // the user may not have noticed, and goes on with the line
		e.keys.unreadText(e.line.Text(), w.Reader, w.Secret)
	case err == nil && history != nil:
		history.Add(text)
	}
	return text, err
}

// setOpenRequest notes that an input request has started; 0 means that none is open.
func (e *lineEditor) setOpenRequest(id timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests.open = id
	if e.editingCode && id > 0 {
		e.keys.wakeReader()
	}
}

// maxClosedRequests bounds the remembered closed requests. Few end between a look at the session
// and its answer.
const maxClosedRequests = 8

// cancelRequest ends the editing of the answer to a request that is over.
func (e *lineEditor) cancelRequest(id timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests.closed = append(e.requests.closed[max(len(e.requests.closed)+1-maxClosedRequests, 0):], id)
	if e.requests.open == id {
		e.requests.open = 0
	}
	if e.requests.answering == id {
		e.requests.dropped = true
		e.keys.wakeReader()
	}
}

// editText edits a text until a key ends it.
func (e *lineEditor) editText(o lineedit.Options, h *lineedit.History) (string, error) {
	e.line.Begin(o, h)
	e.showText()
	e.keys.dropLateKeys()
	e.keys.setEditing(true)
	defer e.keys.setEditing(false)
	for {
		poked, err := e.keys.awaitKey()
		if poked {
			if e.isRequestClosed() {
				return "", errCancelled
			}
			continue
		}
		var key keys.Key
		if err == nil {
			key, err = keys.ReadKey(e.keys, e.line.WantsEscape())
		}
		if err != nil {
			e.finishText("")
			return "", io.EOF
		}
		out := e.line.Press(key)
		if out == lineedit.OutcomeContinue && e.line.Text() == "" {
			e.keys.startLine()
		}
		if e.line.TakeBell() && !e.keys.hasUnreadKeys() {
			_, _ = io.WriteString(os.Stdout, "\a")
		}
		if text, err, over := e.handleOutcome(out); over {
			return text, err
		}
	}
}

// handleOutcome handles the outcome of a key. over means that editing has ended.
func (e *lineEditor) handleOutcome(out lineedit.KeyOutcome) (text string, err error, over bool) {
	text = e.line.Text()
	e.lastNotEmpty = text != ""
	switch out {
	case lineedit.OutcomeAccept:
		e.finishText("")
		return text, nil, true
	case lineedit.OutcomeInterrupt:
		e.finishText("^C")
		return "", errInterrupted, true
	case lineedit.OutcomeEOF:
		e.discardText()
		return "", io.EOF, true
	case lineedit.OutcomeClearScreen:
		e.mu.Lock()
		e.output.markLineStart()
		e.painter.Clear()
		e.mu.Unlock()
	case lineedit.OutcomeEditExternally:
		e.editExternally(text)
	}
	if !e.keys.hasUnreadKeys() { // keys typed ahead are drawn once
		e.drawFrame()
	}
	return "", nil, false
}

// showText draws the edited text after the output on the screen.
func (e *lineEditor) showText() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = true
	e.frame = e.line.Frame()
	e.painter.Begin(e.frame, e.output.cursorColumn())
}

func (e *lineEditor) drawFrame() {
	v := e.line.Frame()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frame = v
	e.painter.Draw(v)
}

// finishText leaves the text followed by mark on the screen.
func (e *lineEditor) finishText(mark string) {
	e.drawFrame()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = false
	e.painter.Finish(mark)
	e.output.markLineStart()
}

// discardText ends a text in which nothing was typed, and removes the prompt of repl.
func (e *lineEditor) discardText() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.editing = false
	if e.editingCode {
		e.painter.Finish("")
		e.output.markLineStart()
		return
	}
	e.painter.Erase()
	if e.output.cursorColumn() > 0 {
		_, _ = e.output.Write([]byte("\n"))
	}
}

// isRequestClosed reports whether the text is no longer needed, and ends it then.
func (e *lineEditor) isRequestClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastNotEmpty = e.line.Text() != ""
	asked := e.editingCode && e.requests.open > 0 && !e.lastNotEmpty
	switch {
	case asked: // the answer is typed after the question
		e.painter.Erase()
	case e.requests.dropped && e.requests.answering > 0:
		e.painter.Finish("")
		e.output.markLineStart()
	default:
		return false
	}
	e.editing = false
	return true
}

// WindowSize returns the size of the terminal, or the default if it is unknown.
func WindowSize() session.Size {
	cols, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return session.Size{Rows: 24, Cols: 80}
	}
	return session.Size{Rows: uint16(min(rows, math.MaxUint16)), Cols: uint16(min(cols, math.MaxUint16))}
}
