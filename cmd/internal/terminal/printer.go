package terminal

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A printer shows the timeline as it happens: text as raw bytes, pictures, and messages for
// the person.
type printer struct {
	out, err  io.Writer          // err is out when both are the same terminal
	freshLine func()             // puts the cursor into the first column
	pictures  *album             // shows and keeps pictures
	screen    func(taken bool)   // called when a program takes the keys, or gives them back
	asked     func(timeline.Seq) // called for each wait that begins, and with 0 when none can be open
	over      func(timeline.Seq) // called for each wait that is over
	self      string             // the author whose inputs are on the screen already,
	replay    timeline.Seq       // if they came after this event
	turnDied  bool               // a turn has ended with its runtime, whose own end comes next
	ending    atomic.Bool        // the person has asked for the end: no input follows

	mu      sync.Mutex
	shown   timeline.Seq  // guarded by mu: everything up to here is on the screen
	changed chan struct{} // guarded by mu: closed when shown grows
}

// run shows events until ctx ends, the session is closed, or it cannot be reached. It
// returns that error.
func (p *printer) run(ctx context.Context, s session.Session) error {
	for e, err := range s.Events(ctx, 0) {
		if err != nil {
			return err
		}
		p.show(e)
		p.advance(e)
	}
	return nil
}

func (p *printer) show(e timeline.Event) {
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
		p.display(b)
	case timeline.TurnStarted:
		p.input(e.Seq, b.Author, "> ", string(b.Input))
	case timeline.InputLine:
		text := b.Text
		if b.Secret {
			text = "(a secret)"
		}
		p.input(e.Seq, b.Author, ": ", text)
	case timeline.Interrupt:
		if b.Author != "" && !p.isOwn(b.Author, e.Seq) {
			p.note("interrupted by " + b.Author)
		}
	case timeline.FullScreenChanged:
		p.screen(b.On)
	case timeline.InputRequested:
		p.asked(e.Seq)
	case timeline.InputRequestEnded:
		p.over(b.Request)
	case timeline.TurnEnded:
		p.asked(0)
		p.turnDied = b.Outcome == timeline.OutcomeEnded
	case timeline.Notice:
		p.note(b.Message)
	case timeline.Limit:
		p.note(b.String())
	case timeline.AccessDenied:
		p.note("the sandbox refused: " + b.String())
	case timeline.AccessGranted:
		p.note("allowed: " + b.String())
	case timeline.Gap:
		p.note(fmt.Sprintf("%d bytes of output came too fast and are not shown", b.Bytes))
	case timeline.WorkerExited:
		p.asked(0)
		if p.isNews(b) {
			p.note(obituary(b, p.ending.Load()))
		}
		p.turnDied = false
	}
}

// display shows a picture, or else the text that stands for it.
func (p *printer) display(d timeline.Display) {
	if _, _, ok := d.ImageData(); ok {
		p.freshLine()
		_, _ = io.WriteString(p.out, p.pictures.add(d))
	} else if text := d.Text(); text != "" {
		p.freshLine()
		_, _ = io.WriteString(p.out, text+"\n")
	}
}

// isOwn reports whether an event was caused at this terminal, in this Run.
func (p *printer) isOwn(author string, seq timeline.Seq) bool {
	return author == p.self && seq > p.replay
}

// input shows another author's input.
func (p *printer) input(seq timeline.Seq, author, mark, text string) {
	if author == "" || p.isOwn(author, seq) {
		return
	}
	p.freshLine()
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		_, _ = io.WriteString(p.out, author+mark+line)
	}
}

// note prints a message of our own.
func (p *printer) note(message string) {
	p.freshLine()
	_, _ = fmt.Fprintf(p.err, "[%s]\n", message)
}

// isNews reports whether the person must be told of the end of a runtime. The end of one that never
// was ready ends Run, and so does an orderly end in a turn, which the code has asked for. A session
// that is closed has no next input.
func (p *printer) isNews(end timeline.WorkerExited) bool {
	cut := p.ending.Load() && end.Signal == "SIGINT" // by the person, who sees ^C
	return !end.NeverReady && !cut && end.Reason != "closed" && !(end.Clean && p.turnDied)
}

// obituary says why a worker ended, and what follows from that. last means that no input follows.
func obituary(b timeline.WorkerExited, last bool) string {
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
		fmt.Fprintf(&s, "; it used up to %d MB", b.PeakRSSBytes>>20)
	}
	s.WriteString("; its state is lost, and the next input starts anew")
	return s.String()
}

func (p *printer) advance(e timeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap, ok := e.Body.(timeline.Gap); ok {
		p.shown = max(p.shown, gap.To)
	}
	p.shown = max(p.shown, e.Seq)
	close(p.changed)
	p.changed = make(chan struct{})
}

// caughtUp waits until everything up to seq is on the screen. It reports false
// when ctx ended first.
func (p *printer) caughtUp(ctx context.Context, seq timeline.Seq) bool {
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
