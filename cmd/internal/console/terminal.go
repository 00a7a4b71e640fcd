package console

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// windowChanged is SIGWINCH, by its number on Linux and macOS, because package syscall does
// not name it everywhere. On systems without the signal, none comes.
const windowChanged = syscall.Signal(28)

// quitStatus is the exit status after Ctrl-\: as if by SIGQUIT.
const quitStatus = 128 + 3

// Options adapt Run to its terminal. The zero value is for a plain one.
type Options struct {
	// Continuation is the usual prompt for the further lines of an input. "" means "... ".
	Continuation string

	// HistoryPath is a file for typed inputs, of mode 0600. "" means no history beyond Run.
	HistoryPath string

	// Syntax is that of the language; nil if it has none that is known.
	Syntax *lineedit.Syntax

	// TranslateAlias turns what people type at other prompts into code; an error says what to type. nil
	// changes nothing.
	TranslateAlias func(code string) (string, error)

	// Colour allows colours of ours.
	Colour bool

	// ViKeys selects the keys of vi, not those of Emacs.
	ViKeys bool

	// EditorCommand is the command of a program that edits a file; "" is none.
	EditorCommand string

	// ImageProtocol says how to show pictures. They are always kept as files, too.
	ImageProtocol ImageProtocol

	// Plain means a terminal that knows no control sequences.
	Plain bool

	// Author is the author of input at this terminal, and Replay the last event before it.
	// Inputs of others, and all inputs up to Replay, are shown with their authors.
	Author      string
	ReplayUntil timeline.Seq

	// SessionStays means that the session goes on after Run, because it is not this terminal's
	// alone.
	SessionStays bool

	// QuitInput is an input that ends the runtime in its own way, so that its exit handlers run and are
	// waited for. With "", or when the session goes on, Ctrl-D only ends Run.
	QuitInput string

	// Programs reaches the programs of a session whose terminal is this person's; nil if it is
	// not.
	Programs Programs

	// ExitStatus turns a worker's end into an exit status for Run to return. nil
	// means 0 for all.
	ExitStatus func(timeline.WorkerExited) int
}

// Programs are those that a person uses through the terminal of a session.
type Programs interface {
	// Keys types for the program that has taken the keys, see timeline.FullScreenChanged. An error of
	// session.KindStale means that there is none.
	Keys(b []byte) error

	// InterruptJob interrupts the foreground job of a shell, and reports whether there is one.
	InterruptJob() bool
}

// Run lets the person at the terminal use s. Standard input and output must be a terminal.
// It returns when the person presses Ctrl-D at a prompt or Ctrl-\ at any time, when the runtime ends itself in a turn (with
// its status), or when ctx ends. It restores the terminal. It does not close s.
func Run(ctx context.Context, s session.Session, opts *Options) (status int, err error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Continuation == "" {
		o.Continuation = "... "
	}
	if o.ExitStatus == nil {
		o.ExitStatus = func(timeline.WorkerExited) int { return 0 }
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var quit atomic.Bool
	pressed := make(chan struct{}, 1)
	ed, err := newLineEditor(ctx, &o, func() {
		select {
		case pressed <- struct{}{}:
		default: // the last one is still being handled
		}
	}, func() {
		quit.Store(true)
		stop()
	})
	if err != nil {
		return 0, err
	}
	defer ed.close()
	pictures := &imageDir{protocol: o.ImageProtocol}
	defer pictures.close()
	p := &printer{
		out:           ed,
		err:           os.Stderr,
		startNewLine:  ed.startNewLine,
		images:        pictures,
		ownAuthor:     o.Author,
		replayUntil:   o.ReplayUntil,
		setScreen:     ed.setScreen,
		requestOpened: ed.setOpenRequest,
		requestClosed: ed.cancelRequest,
		changed:       make(chan struct{}),
	}
	if sameTerminal(os.Stdout, os.Stderr) {
		p.err = ed
	}
	c := &conversation{cursor: o.ReplayUntil, session: s, options: o, editor: ed, printer: p, interrupts: pressed}
	_ = s.Resize(ctx, WindowSize())
	ed.repaint = func() { repaintPrograms(ctx, s, ed.outputArrived) }

	var wg sync.WaitGroup
	var lost error // why the session can no longer be reached; wg guards it
	wg.Go(func() {
		if err := p.run(ctx, s); ctx.Err() == nil {
			lost = err
		}
		stop()
	})
	wg.Go(func() { c.handleSignals(ctx) })
	status, err = c.run(ctx)
	stop()
	wg.Wait()
	if quit.Load() && !o.SessionStays {
		status = quitStatus
	}
	if err == nil {
		err = lost
	}
	return status, err
}

// IsUsable reports whether Run can work here.
func IsUsable() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// sameTerminal reports whether two files are the same device.
func sameTerminal(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}
