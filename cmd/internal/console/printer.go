package console

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A printer shows the timeline as it happens: text as raw bytes, images, and notices for the user.
type printer struct {
	out, err      io.Writer          // err equals out if both are the same terminal
	startNewLine  func()             // moves the cursor to the first column
	images        *imageDir          // shows and saves images
	setScreen     func(taken bool)   // called when a program takes the keys, or gives them back
	requestOpened func(timeline.Seq) // called for each new input request, and with 0 when none can be open
	requestClosed func(timeline.Seq) // called for each closed input request
	endRelay      func()             // called when no program of the terminal can take keys
	offerRelay    func(string) bool  // reports whether to tell the user of a program that takes keys
	echo          *lineEcho          // shows the lines that this user has typed for programs
	ownAuthor     string             // the author whose inputs are already on the screen,
	replayUntil   timeline.Seq       // if they came after this event
	turnCrashed   bool               // a turn has ended because its runtime ended; WorkerExited follows
	exiting       atomic.Bool        // the user wants to quit: no input follows

	mu      sync.Mutex
	shown   timeline.Seq  // guarded by mu: everything up to here is on the screen
	changed chan struct{} // guarded by mu: closed when shown grows
}

// run shows events until ctx ends, the session is closed, or it cannot be reached. It returns that
// error.
func (p *printer) run(ctx context.Context, s session.Session) error {
	for e, err := range s.Events(ctx, 0) {
		if err != nil {
			return err
		}
		p.printEvent(e)
		p.markShown(e)
	}
	return nil
}

func (p *printer) printEvent(e timeline.Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case timeline.Text:
		if b.Stream == timeline.Stderr {
			_, _ = p.err.Write(b.Data)
		} else {
			_, _ = p.out.Write(b.Data)
		}
	case timeline.Display:
		p.printDisplay(b)
	case timeline.TurnStarted:
		p.printInput(e.Seq, b.Author, "> ", string(b.Input))
	case timeline.InputLine:
		text := b.Text
		if b.Secret {
			text = "(a secret)"
		}
		if b.Keys && p.isOwnInput(b.Author, e.Seq) {
			if line, ok := p.echo.takeLine(b.Text); ok {
				_, _ = io.WriteString(p.out, line+"\n")
			}
			break
		}
		p.printInput(e.Seq, b.Author, ": ", text)
	case timeline.Interrupt:
		if b.Author != "" && !p.isOwnInput(b.Author, e.Seq) {
			p.printNotice("interrupted by " + b.Author)
		}
	case timeline.FullScreenChanged:
		p.setScreen(b.On)
	case timeline.InputRequested:
		p.requestOpened(e.Seq)
		if !b.Terminal {
			p.endRelay()
		} else if b.Raw && p.offerRelay(b.Reader) {
			p.printNotice(b.Reader + " takes keys: Ctrl-] types to it, and Ctrl-] again returns")
		}
	case timeline.InputRequestEnded:
		p.requestClosed(b.Request)
	case timeline.TurnEnded:
		p.requestOpened(0)
		p.endRelay()
		p.turnCrashed = b.Outcome == timeline.OutcomeEnded
	case timeline.Notice:
		p.printNotice(b.Message)
	case timeline.Limit:
		p.printNotice(b.String())
	case timeline.AccessDenied:
		p.printNotice(b.RefusedBy() + ": " + b.String())
	case timeline.AccessGranted:
		p.printNotice("allowed: " + b.String())
	case timeline.Gap:
		p.printNotice(fmt.Sprintf("%d bytes of output came too fast and are not shown", b.Bytes))
	case timeline.WorkerExited:
		p.requestOpened(0)
		if p.isExitReported(b) {
			p.printNotice(exitMessage(b, p.exiting.Load()))
		}
		p.turnCrashed = false
	}
}

// printDisplay shows an image, or else its alternative text.
func (p *printer) printDisplay(d timeline.Display) {
	if _, _, ok := d.ImageData(); ok {
		p.startNewLine()
		_, _ = io.WriteString(p.out, p.images.addImage(d))
	} else if text := d.Text(); text != "" {
		p.startNewLine()
		_, _ = io.WriteString(p.out, text+"\n")
	}
}

// isOwnInput reports whether an event was caused at this terminal, in this Run.
func (p *printer) isOwnInput(author string, seq timeline.Seq) bool {
	return author == p.ownAuthor && seq > p.replayUntil
}

// printInput shows another author's input.
func (p *printer) printInput(seq timeline.Seq, author, mark, text string) {
	if author == "" || p.isOwnInput(author, seq) {
		return
	}
	p.startNewLine()
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		_, _ = io.WriteString(p.out, author+mark+line)
	}
}

// printNotice prints a message of repl.
func (p *printer) printNotice(message string) {
	p.startNewLine()
	_, _ = fmt.Fprintf(p.err, "[%s]\n", message)
}

// isExitReported reports whether to tell the user that a worker exited. A worker that was never
// ready ends Run. So does a clean exit in a turn, because the code asked for it. A closed session
// has no next input.
func (p *printer) isExitReported(end timeline.WorkerExited) bool {
	cut := p.exiting.Load() && end.Signal == "SIGINT" // the user has interrupted it, and sees ^C
	return !end.NeverReady && !cut && end.Reason != "closed" && !(end.Clean && p.turnCrashed)
}

// exitMessage says why a worker exited, and what follows. last means that no input follows.
func exitMessage(b timeline.WorkerExited, last bool) string {
	var s strings.Builder
	s.WriteString(b.Reason)
	if b.Message != "" && b.Message != b.Reason {
		fmt.Fprintf(&s, ": %s", b.Message)
	}
	if last {
		return s.String()
	}
	if b.LastLine != "" {
		fmt.Fprintf(&s, "; its last line was: %s", b.LastLine)
	}
	if b.PeakRSSBytes > 0 {
		fmt.Fprintf(&s, "; it used up to %s", text.Bytes(b.PeakRSSBytes))
	}
	s.WriteString("; its state is lost, and the next input starts a new one")
	return s.String()
}

func (p *printer) markShown(e timeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap, ok := e.Body.(timeline.Gap); ok {
		p.shown = max(p.shown, gap.To)
	}
	p.shown = max(p.shown, e.Seq)
	close(p.changed)
	p.changed = make(chan struct{})
}

// waitUntilShown waits until everything up to seq is on the screen. It reports false if ctx ended
// first.
func (p *printer) waitUntilShown(ctx context.Context, seq timeline.Seq) bool {
	for {
		p.mu.Lock()
		shown, changed := p.shown, p.changed
		p.mu.Unlock()
		if shown >= seq {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
