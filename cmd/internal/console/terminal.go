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

// windowChanged is SIGWINCH, by its number on Linux and macOS, because package syscall does not
// define it on all systems. On systems without that signal, it never arrives.
const windowChanged = syscall.Signal(28)

// quitStatus is the exit status after Ctrl-\, the same as after SIGQUIT.
const quitStatus = 128 + 3

// Options configure how Run uses the terminal and the session. The zero value suits a plain
// terminal.
type Options struct {
	// Continuation is the default prompt for the further lines of an input. "" means "... ".
	Continuation string

	// HistoryPath is a file for typed inputs, of mode 0600. "" means that no history outlives Run.
	HistoryPath string

	// Syntax is the syntax of the language; nil if the language has none.
	Syntax *lineedit.Syntax

	// TranslateAlias translates commands of other prompts into code. An error suggests other code. nil
	// changes nothing.
	TranslateAlias func(code string) (string, error)

	// Colour allows repl to colour its own output.
	Colour bool

	// ViKeys selects the keys of vi instead of the keys of Emacs.
	ViKeys bool

	// EditorCommand is the command of a program that edits a file; "" disables it.
	EditorCommand string

	// ImageProtocol says how to show images. They are always saved as files, too.
	ImageProtocol ImageProtocol

	// Plain means a terminal that knows no control sequences.
	Plain bool

	// Author is the author of input at this terminal, and Replay the last event before it. Inputs
	// of others, and all inputs up to Replay, are shown with their authors.
	Author      string
	ReplayUntil timeline.Seq

	// SessionStays means that the session continues after Run, because other clients share it.
	SessionStays bool

	// QuitInput is an input that makes the runtime exit, so that its exit handlers run before Run
	// returns. With "", or if the session continues, Ctrl-D only ends Run.
	QuitInput string

	// Programs reaches the programs in the session's terminal; nil if this user does not own that
	// terminal.
	Programs TerminalPrograms

	// ExitStatus maps a worker's exit to the exit status that Run returns. nil means 0 for all.
	ExitStatus func(timeline.WorkerExited) int
}

// TerminalPrograms sends the user's keys to programs in the terminal of a session.
type TerminalPrograms interface {
	// Keys sends input to the program that has taken the keys, see timeline.FullScreenChanged. An
	// error of session.KindStale means that no program has the keys.
	Keys(b []byte) error

	// InterruptJob interrupts the foreground job of a shell, and reports whether one was running.
	InterruptJob() bool
}

// Run lets the user at the terminal use s. Standard input and output must be a terminal. It returns
// when the user presses Ctrl-D at a prompt or Ctrl-\ at any time. It also returns when the runtime
// exits in a turn, with that status, or when ctx ends. It restores the terminal. It does not close
// s.
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
		default: // the last Ctrl-C is still being handled
		}
	}, func() {
		quit.Store(true)
		stop()
	})
	if err != nil {
		return 0, err
	}
	defer ed.close()
	images := &imageDir{protocol: o.ImageProtocol}
	defer images.close()
	p := &printer{
		out:           ed,
		err:           os.Stderr,
		startNewLine:  ed.startNewLine,
		images:        images,
		ownAuthor:     o.Author,
		replayUntil:   o.ReplayUntil,
		setScreen:     ed.setScreen,
		requestOpened: ed.setOpenRequest,
		requestClosed: ed.cancelRequest,
		echo:          &lineEcho{},
		endRelay:      ed.endRelay,
		offerRelay:    ed.offerRelay,
		changed:       make(chan struct{}),
	}
	if sameTerminal(os.Stdout, os.Stderr) {
		p.err = ed
	}
	c := &conversation{cursor: o.ReplayUntil, session: s, options: o, editor: ed, printer: p, interrupts: pressed}
	c.ahead = typeAhead{session: s, keys: ed.keys, isVi: o.ViKeys, echo: p.echo, giveBack: ed.returnLine}
	_ = s.Resize(ctx, WindowSize())
	ed.repaint = func() { repaintPrograms(ctx, s, ed.outputArrived) }

	var wg sync.WaitGroup
	var sessionErr error // why the session can no longer be reached; guarded by wg
	wg.Go(func() {
		if err := p.run(ctx, s); ctx.Err() == nil {
			sessionErr = err
		}
		stop()
	})
	wg.Go(func() { c.handleSignals(ctx) })
	wg.Go(func() { c.runRelays(ctx) })
	status, err = c.run(ctx)
	stop()
	wg.Wait()
	if quit.Load() && !o.SessionStays {
		status = quitStatus
	}
	if err == nil {
		err = sessionErr
	}
	return status, err
}

// IsUsable reports whether Run can work on the standard streams.
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
