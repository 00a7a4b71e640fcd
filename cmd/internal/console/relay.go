package console

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/cmd/internal/console/keyrelay"
	"github.com/turnstone-repl/turnstone/session"
)

// ctrlBracket is Ctrl-], the key that starts and ends a relay. The editor and the usual programs do
// not use it.
const ctrlBracket = '\x1d'

// maxRelayedOutput bounds the output that is kept while a relay has the screen, in bytes.
const maxRelayedOutput = 16 << 10

// maxRelayedKeys bounds the reads of the terminal that wait for the session.
const maxRelayedKeys = 64

// A relayState is the state of a lineEditor for relays of its keys.
type relayState struct {
	asked   chan struct{} // has an element when the user wants a relay
	end     func()        // ends the relay that has the screen; nil if none does
	output  []byte        // of the session during the relay, without what drew on the full screen
	drawn   bool          // the full screen is in use
	offered string        // the program for which a relay was offered in this turn
}

// addOutput keeps output for the end of a relay, and returns false if no relay has the screen.
func (r *relayState) addOutput(b []byte) bool {
	if r.end == nil {
		return false
	}
	r.output = append(r.output, b...)
	r.output = r.output[max(0, len(r.output)-maxRelayedOutput):]
	return true
}

// runRelays starts a relay of the keys each time the user asks for one, until ctx ends.
func (c *conversation) runRelays(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.editor.relay.asked:
		}
		if _, err := c.session.Type(ctx, session.Keys{Live: true}); err != nil {
			c.printer.printNotice("no program takes keys: " + err.Error())
		} else if err := c.editor.relayKeys(ctx, c.session); err != nil {
			c.printer.printNotice("the keys were not typed: " + err.Error())
		}
	}
}

// askForRelay notes that the user has pressed Ctrl-].
func (e *lineEditor) askForRelay() {
	select {
	case e.relay.asked <- struct{}{}:
	default:
	}
}

// relayKeys gives the terminal to the programs of a session until the relay ends.
func (e *lineEditor) relayKeys(ctx context.Context, s session.TerminalAccess) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	e.mu.Lock()
	if e.editing {
		e.painter.Erase()
	}
	e.relay.end, e.relay.output, e.relay.drawn = leave, nil, false
	e.mu.Unlock()
	typed := make(chan []byte, maxRelayedKeys)
	var left atomic.Bool // by the user, so the program still draws
	e.keys.setProgram(func(b []byte) error {
		i := bytes.IndexByte(b, ctrlBracket)
		if left.Load() {
			if i >= 0 { // the session does not answer
				leave()
			}
			return nil
		}
		if i >= 0 {
			b = b[:i]
		}
		select {
		case typed <- append([]byte(nil), b...):
		default:
			_, _ = io.WriteString(os.Stdout, "\a") // the session does not answer
		}
		if i >= 0 { // what was typed before is still for the program
			left.Store(true)
			close(typed)
		}
		return nil
	})
	r := keyrelay.KeyRelay{Session: s, Keys: typed, Out: os.Stdout, Rows: func() int { return int(WindowSize().Rows) }, Release: func() { e.keys.setProgram(nil) }, Drawn: e.dropDrawing}
	err := r.Run(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.relay.end = nil
	if !left.Load() || !e.relay.drawn {
		_, _ = e.output.Write(e.relay.output)
	}
	if e.editing {
		e.painter.Begin(e.frame, e.output.cursorColumn())
	}
	return err
}

// dropDrawing drops the output that drew the screen of a full-screen program. Text after the drawing
// may be a result: the program may have ended without leaving the full screen.
func (e *lineEditor) dropDrawing(fullScreen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.relay.drawn = fullScreen; fullScreen {
		e.relay.output = keyrelay.AfterDrawing(e.relay.output)
	}
}

// offerRelay reports whether the user should learn that a program takes keys: once in a turn, and
// not during a relay.
func (e *lineEditor) offerRelay(program string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.relay.offered == program || e.relay.end != nil
	e.relay.offered = program
	return !known && program != "" && e.keys.relay != nil
}

// endRelay ends a relay, because the turn has ended or the runtime asks.
func (e *lineEditor) endRelay() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.relay.offered = ""
	if e.relay.end != nil {
		e.relay.end()
	}
}

// A relayGate is the terminal for the editor, which draws nothing while a relay has the screen. The
// writer holds the editor's mu.
type relayGate struct{ editor *lineEditor }

// Write implements io.Writer.
func (g relayGate) Write(b []byte) (int, error) {
	if g.editor.relay.end != nil {
		return len(b), nil
	}
	return os.Stdout.Write(b)
}
