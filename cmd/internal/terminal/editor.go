package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/ergochat/readline"
	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Errors that end the editing of a line. io.EOF is Ctrl-D on an empty line, or the end of
// the terminal.
var (
	errInterrupted = errors.New("terminal: Ctrl-C")
	errCancelled   = errors.New("terminal: nobody waits for the line any more")
)

// indentation is inserted by the Tab key if there is nothing to complete.
const indentation = "    "

// A completer lists texts that can replace text[Start:].
type completer func(text string) session.Completion

// An editor lets the person edit one line at a time. All output goes through its Write. If
// a line is being edited, it is then redrawn below. code and answer are for one goroutine;
// any goroutine may call the rest.
type editor struct {
	keys     *keyboard
	screen   *screen
	readline *readline.Instance
	history  history
	normal   *term.State  // the first state of the terminal
	makeRaw  func() error // raw mode for input only, as readline does it
	plain    bool         // the terminal knows no bracketed paste
	asleep   atomic.Bool  // Ctrl-Z was pressed: the shell has the terminal
	closed   chan struct{}
	wg       sync.WaitGroup

	resized func() // tells readline that the window has another size

	mu      sync.Mutex
	wait    timeline.Seq // guarded by mu: the wait that is being answered; 0 when none is
	dropped bool         // guarded by mu: that wait is over
	open    timeline.Seq // guarded by mu: the wait that has no answer yet; 0 when there is none
	coding  bool         // guarded by mu: the first line of code is being edited

	// The rest belongs to the goroutine that edits.
	config     *readline.Config // the settings of the line that is being edited
	more       bool             // the line ended inside a paste
	literalTab bool             // the next Tab is text
	typed      bool             // the line is not empty
	cancelled  bool             // the line ended because of a wait, and not by a key
}

// newEditor prepares editing until ctx ends, which also ends a line that is
// being edited. The caller closes it.
//
// The terminal is in raw mode until then, also between the lines. So text that is typed
// while code runs is not shown before something reads it, such as a password that was
// typed too early. interrupt is called for a Ctrl-C while no line is edited, and quit for
// Ctrl-\; neither may block.
func newEditor(ctx context.Context, o *Options, interrupt, quit func()) (*editor, error) {
	normal, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil {
		return nil, fmt.Errorf("terminal: standard input is none: %w", err)
	}
	e := &editor{
		history: history{o.HistoryPath},
		normal:  normal,
		plain:   o.Plain,
		closed:  make(chan struct{}),
	}
	e.keys = newKeyboard(interrupt, quit, nil)
	if suspends {
		e.keys.suspend = e.sleep
	}
	e.screen = &screen{out: os.Stdout, answer: e.keys.put, width: func() int { return int(windowSize().Cols) }}
	e.config = e.newConfig()
	e.config.FuncOnWidthChanged = func(f func()) { e.resized = f }
	e.config.FuncMakeRaw = nil // selects readline's own
	if e.readline, err = readline.NewFromConfig(e.config); err != nil {
		return nil, err
	}
	e.makeRaw = e.config.FuncMakeRaw
	lines, _ := e.history.load() // the editor also works without its history
	for _, line := range lines {
		_ = e.readline.SaveToHistory(line)
	}
	if err := e.takeTerminal(); err != nil {
		return nil, err
	}
	go e.keys.pump(keys())
	e.wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-e.closed:
		}
		_ = e.readline.Close()
	})
	return e, nil
}

// takeTerminal puts the terminal into the mode for editing.
func (e *editor) takeTerminal() error {
	if !e.plain {
		_, _ = io.WriteString(e.screen.out, bracketOn)
	}
	return e.makeRaw()
}

// giveTerminal restores the mode in which the terminal was found.
func (e *editor) giveTerminal() error {
	if !e.plain {
		_, _ = io.WriteString(e.screen.out, bracketOff)
	}
	return term.Restore(int(os.Stdin.Fd()), e.normal)
}

// sleep gives the terminal to the shell until that brings this program to the
// foreground again. The code of the session may go on.
func (e *editor) sleep() {
	_ = e.giveTerminal()
	suspend()
	_ = e.takeTerminal()
	e.readline.Refresh() // a line may be edited by now
}

// newConfig returns the configuration that all lines share. We set the terminal's mode,
// except for Ctrl-Z, which readline handles.
func (e *editor) newConfig() *readline.Config {
	return &readline.Config{
		Stdin:                  e.keys,
		Stdout:                 e.screen,
		Stderr:                 e.screen,
		HistoryLimit:           historyLines,
		DisableAutoSaveHistory: true, // history writes its own file, of mode 0600
		HistorySearchFold:      true,
		Undo:                   true,
		FuncFilterInputRune:    e.filter,
		Listener: func(line []rune, _ int, _ rune) ([]rune, int, bool) {
			e.typed = len(line) > 0
			return nil, 0, false
		},
		FuncIsTerminal: func() bool { return true },
		FuncGetSize: func() (width, height int) {
			s := windowSize()
			return int(s.Cols), int(s.Rows)
		},
		FuncOnWidthChanged: func(func()) {}, // once is enough, see newEditor
		FuncMakeRaw: func() error {
			if e.asleep.CompareAndSwap(true, false) {
				return e.takeTerminal()
			}
			return nil
		},
		FuncExitRaw: func() error {
			if e.asleep.Load() {
				return e.giveTerminal()
			}
			return nil
		},
	}
}

// close restores the state of the terminal before newEditor.
func (e *editor) close() {
	close(e.closed)
	e.wg.Wait()
	e.keys.end(io.EOF)
	_ = e.giveTerminal()
}

// Write implements io.Writer. A line that is being edited is redrawn below.
func (e *editor) Write(b []byte) (int, error) {
	e.screen.wrote(b)
	return e.readline.Write(b)
}

// freshLine puts the cursor into the first column.
func (e *editor) freshLine() {
	if e.screen.column() > 0 {
		_, _ = e.Write([]byte("\n"))
	}
}

// code edits one line of code. more means that it was pasted and that the paste goes on. An
// empty first line is cancelled when another author's code asks for input.
func (e *editor) code(prompt string, first bool, complete completer) (line string, more bool, err error) {
	c := e.newConfig()
	c.Prompt = prompt
	c.AutoComplete = &completion{e, complete}
	e.mu.Lock()
	e.coding = first
	if e.coding && e.open > 0 {
		e.keys.put(string(keyCancel))
	}
	e.mu.Unlock()
	line, err = e.edit(c)
	e.mu.Lock()
	e.coding = false
	e.mu.Unlock()
	if err == nil && keep(line) {
		_ = e.readline.SaveToHistory(line)
		_ = e.history.add(line) // a full disk must not end the session
	}
	return line, e.more, err
}

// answer edits the answer to a wait, after the text that is on the screen already and
// prompt. An answer never gets into the history; a secret one is not shown either.
func (e *editor) answer(wait timeline.Seq, prompt string, secret bool) (string, error) {
	e.mu.Lock()
	e.wait, e.dropped = wait, false
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.wait = 0
		e.mu.Unlock()
	}()
	c := e.newConfig()
	c.Prompt = prompt
	if secret {
		c.EnableMask = true
		c.HistoryLimit = -1
	}
	e.readline.DisableHistory()
	defer e.readline.EnableHistory()
	return e.edit(c)
}

// asked notes that wait has begun; 0 means that none is open.
func (e *editor) asked(wait timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = wait
	if e.coding && wait > 0 {
		e.keys.put(string(keyCancel)) // does not block
	}
}

// cancel ends the editing of the answer to wait, which is over.
func (e *editor) cancel(wait timeline.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == wait {
		e.open = 0
	}
	if e.wait == wait {
		e.dropped = true
		e.keys.put(string(keyCancel)) // does not block
	}
}

func (e *editor) edit(c *readline.Config) (string, error) {
	e.more, e.literalTab, e.typed, e.cancelled, e.config = false, false, false, false, c
	e.screen.begin()
	e.keys.edit(true)
	line, err := e.readline.ReadLineWithConfig(c)
	e.keys.edit(false)
	switch {
	case e.cancelled:
		return "", errCancelled
	case errors.Is(err, readline.ErrInterrupt):
		return "", errInterrupted
	case errors.Is(err, io.EOF):
		_, _ = io.WriteString(e.screen, "\r") // readline leaves the cursor below the prompt's end
	}
	return line, err
}

// filter removes our own keys from the stream and acts on them. It runs in the goroutine
// that edits.
func (e *editor) filter(r rune) (rune, bool) {
	switch r {
	case readline.CharEnter, readline.CharCtrlJ:
		e.more = false
	case readline.CharCtrlZ:
		if !suspends {
			return readline.CharEOT, true
		}
		e.asleep.Store(true)
	case keyPastedEnter:
		e.more = true
		return readline.CharEnter, true
	case keyPastedTab:
		e.literalTab = true
		return readline.CharTab, true
	case keyCancel:
		e.mu.Lock()
		asked := e.coding && e.open > 0 && !e.typed
		e.cancelled = e.dropped || asked
		e.mu.Unlock()
		e.config.InterruptPrompt = "" // Ctrl-C was not pressed
		if asked {
			e.config.Prompt = "" // the answer is typed after the question
			e.screen.leaveRow()
		}
		return readline.CharInterrupt, e.cancelled
	}
	return r, true
}

// completion implements the Tab key.
type completion struct {
	editor   *editor
	complete completer
}

// Do implements readline.AutoCompleter: it returns how the text before the
// cursor can go on, and how many characters of it the candidates share.
func (c *completion) Do(line []rune, pos int) ([][]rune, int) {
	before := string(line[:pos])
	if c.editor.literalTab {
		c.editor.literalTab = false
		return [][]rune{{'\t'}}, 0
	}
	if strings.TrimSpace(before) == "" {
		return [][]rune{[]rune(indentation)}, 0
	}
	found := c.complete(before)
	if found.Start > len(before) {
		return nil, 0
	}
	prefix := before[found.Start:]
	var candidates [][]rune
	for _, match := range found.Matches {
		if rest, ok := strings.CutPrefix(match, prefix); ok {
			candidates = append(candidates, []rune(rest))
		}
	}
	return candidates, utf8.RuneCountInString(prefix)
}

// windowSize returns the size of the terminal, or the usual one if it is unknown.
func windowSize() session.Size {
	cols, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return session.Size{Rows: 24, Cols: 80}
	}
	return session.Size{Rows: uint16(min(rows, math.MaxUint16)), Cols: uint16(min(cols, math.MaxUint16))}
}
