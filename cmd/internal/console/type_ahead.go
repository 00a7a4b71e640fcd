package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/session"
)

// While an unfinished line is typed during a turn, the session is asked whether a program listens:
// minListenInterval after the last question, and ever less often up to maxListenInterval.
const (
	minListenInterval = 20 * time.Millisecond
	maxListenInterval = time.Second
)

// listenTimeout is how long a finished line waits for its program to listen again. A program that
// polls also does other things in between.
const listenTimeout = 500 * time.Millisecond

// A typeAhead decides about the lines that a user types while code runs and nothing asks for input.
// A line that is finished while a program listens is typed for that program. A line that was started
// for a program never becomes code. All other lines stay unread, for the next request or prompt.
type typeAhead struct {
	session  session.Session
	isVi     bool // the user edits with the keys of vi
	keys     *keyReader
	echo     *lineEcho                           // gets each line before it is sent
	giveBack func(text string, mark programMark) // called for a line that no program takes

	unheardEnd int // the end of the unread keys when last no program listened
}

// handleLines handles lines until over ends. ctx ends the calls of the session.
func (a *typeAhead) handleLines(ctx, over context.Context) {
	decided := a.keys.readPosition() // lines up to here stay unread
	a.unheardEnd = 0
	var asked time.Time
	pause := minListenInterval
	for over.Err() == nil {
		line, _ := a.keys.lineAfter(decided)
		var again <-chan time.Time
		switch {
		case line.complete:
			if !a.sendLine(ctx, over, line) {
				decided = line.end
			}
			continue
		case line.end == line.begin: // nothing is typed
		case time.Since(asked) < pause:
			again = time.After(pause - time.Since(asked))
		default:
			_ = a.typeLive(ctx, line, session.Keys{Live: true})
			asked = time.Now()
			again = time.After(pause)
			pause = min(2*pause, maxListenInterval)
		}
		select {
		case <-over.Done():
		case <-again:
		case <-a.keys.arrived:
			pause = minListenInterval
		}
	}
}

// sendLine sends a finished line to the program that listens. It returns false if the line stays
// unread.
func (a *typeAhead) sendLine(ctx, over context.Context, line typedLine) bool {
	text, typed := "", "<C-d>"
	if !line.isEnd() {
		text = lineedit.TextOfKeys(line.keys, a.isVi)
		typed = keyText(text) + "<Enter>"
	}
	switch mark, marked := a.keys.markOfLine(line.begin, line.end); {
	case !marked && line.end <= a.unheardEnd:
		return false // the whole line was typed before the session was asked
	case marked && mark.secret:
		a.keys.removeLine(line)
		a.giveBack(text, mark)
		return true
	}
	for began := time.Now(); ; {
		a.echo.expectLine(typed, text)
		err := a.typeLive(ctx, line, session.Keys{Text: typed, Live: true})
		mark, marked := a.keys.markOfLine(line.begin, line.end)
		switch {
		case err == nil:
			a.keys.removeLine(line)
			return true
		case errors.Is(err, session.ErrWaiting), !marked:
			return false
		case time.Since(began) >= listenTimeout:
			a.keys.removeLine(line)
			a.giveBack(text, mark)
			return true
		}
		select {
		case <-over.Done():
			return false
		case <-time.After(minListenInterval):
		}
	}
}

// typeLive types keys for a program that listens. If one does, everything that is typed by now was
// typed for it.
func (a *typeAhead) typeLive(ctx context.Context, line typedLine, k session.Keys) error {
	_, end := a.keys.lineAfter(line.begin)
	_, err := a.session.Type(ctx, k)
	old, marked := a.keys.markOfLine(line.begin, line.end)
	mark := programMark{from: line.begin, to: end}
	listens := err == nil
	if !marked || listens && old.program == "" {
		// A program that polls is not in its call at each moment, but it is known for longer.
		mark.program = a.programName(ctx)
		listens = listens || mark.program != ""
	}
	switch {
	case listens:
		a.keys.markTyped(mark)
	case !marked:
		a.unheardEnd = end
	}
	return err
}

// A lineEcho shows a line that was typed for a program, once it is in the timeline. The terminal of a
// session echoes nothing.
type lineEcho struct {
	mu          sync.Mutex
	typed, text string // guarded by mu: the line as keys and as text; "" if none is expected
}

// expectLine sets the next line.
func (l *lineEcho) expectLine(typed, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed, l.text = typed, text
}

// takeLine returns the text of the expected line, if these are its keys. The keys of a secret are "".
func (l *lineEcho) takeLine(typed string) (text string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if typed == "" || typed != l.typed {
		return "", false
	}
	l.typed = ""
	return l.text, true
}

// programName returns the name of a program that reads the terminal, or "".
func (a *typeAhead) programName(ctx context.Context) string {
	i, err := a.session.Info(ctx)
	switch {
	case err != nil:
	case i.Listener != nil:
		return i.Listener.Program
	case i.InputRequest != nil && i.InputRequest.Terminal:
		return i.InputRequest.Reader
	}
	return ""
}
