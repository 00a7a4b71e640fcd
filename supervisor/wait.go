package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// An ask is a wait, with the facts that an answer needs.
type ask struct {
	session.InputRequest
	worker uint64 // the worker's number for the wait; 0 for a terminal reader
	all    bool   // the reader wants all input, not one line
	reader string // key of the terminal reader
	call   uint64 // the number of the held call, or of the form; 0 for a wait for input
}

// stdinWait handles a question of the runtime.
func (m *machine) stdinWait(f ipc.StdinWait) error {
	if m.turn == nil || f.Turn != m.turn.id {
		if f.Turn > m.lastTurn {
			return fmt.Errorf("stdin_wait names turn %d, which has not begun", f.Turn)
		}
		return nil // a thread of the turn before asks; it will ask again in the next turn
	}
	if m.turn.unacked {
		return nil // the worker asked before it saw the interrupt, which ends this wait
	}
	if len(m.asked) == maxAsked {
		return fmt.Errorf("more than %d readers wait at once", maxAsked)
	}
	m.ask(ask{
		InputRequest: session.InputRequest{
			Turn:   m.turn.id,
			Prompt: m.log.Redact(f.Prompt),
			Kind:   timeline.InputKind(f.Kind),
			Secret: f.Kind == ipc.WaitSecret,
		},
		worker: f.Wait,
		all:    f.Want == ipc.WantAll,
	}, f.Prompt)
	return nil
}

// leaveTime is how long a program that an interrupt struck may still be seen to read the
// terminal, before it counts as one that goes on reading. The worker's acknowledgement does not
// tell whether its children have felt the same signal.
const leaveTime = 100 * time.Millisecond

// looks reports whether a new terminal reader would matter.
func (m *machine) looks() bool {
	return (m.phase == phaseStarting || m.phase == phaseRunning) && !m.turn.unacked && len(m.asked) == 0
}

// reads handles a program that reads the terminal.
func (m *machine) reads(reader, command string, secret bool) {
	if m.ready == nil && m.earlyInput != "" {
		if time.Since(m.turn.started) > earlyInput {
			m.fail(errors.New(m.earlyInput))
		}
		return
	}
	if m.taken {
		return // it gets keys
	}
	if m.known[reader] || m.fed[reader] || time.Since(m.left[reader]) < leaveTime {
		return
	}
	prompt := m.log.Redact(string(m.lastLine))
	kind := timeline.InputKindLine
	if secret {
		kind = timeline.InputKindSecret
	}
	m.ask(ask{
		InputRequest: session.InputRequest{Turn: m.turn.id, Prompt: prompt, Kind: kind, Secret: secret, Terminal: true, Reader: command},
		reader:       reader,
	}, prompt)
}

// screenTaken handles that a program has taken the terminal's keys, or has given them back. Its
// reading is no wait.
func (m *machine) screenTaken(on bool) {
	if m.turn == nil || m.taken == on {
		return
	}
	if !on {
		m.endScreen()
		m.effect(effect{do: doLook})
		return
	}
	m.taken = true
	m.dropReaders()
	m.record(timeline.FullScreenChanged{On: true})
}

func (m *machine) endScreen() {
	if m.taken {
		m.taken = false
		m.record(timeline.FullScreenChanged{})
	}
}

// dropReaders ends the waits of programs that read the terminal.
func (m *machine) dropReaders() {
	if m.shown != nil && m.shown.Terminal {
		m.record(timeline.InputRequestEnded{Request: m.shown.ID})
		m.shown = nil
		m.resume()
	}
	m.asked = slices.DeleteFunc(m.asked, func(a ask) bool { return a.Terminal })
	if m.shown == nil && len(m.asked) > 0 {
		m.serve()
	}
}

func (m *machine) ask(a ask, prompt string) {
	m.asked = append(m.asked, a)
	if m.held() != nil {
		m.joinHeld(prompt)
	}
	m.serve()
}

// joinHeld turns an input submitted during the start into the answer to the start-up's
// question, which came first.
func (m *machine) joinHeld(prompt string) {
	t := m.early
	t.id = 0
	m.notice("the input answered a prompt of the start-up: %q", prompt)
	m.queue.add(t.author, session.Input{Data: withNewline(t.input)})
	t.input = nil
}

// reportLines notes which lines of the turn's own input answered prompts instead of running as
// code. One sentence covers lines that follow each other.
func (m *machine) reportLines() {
	if m.turn == nil || len(m.turn.took) == 0 {
		return
	}
	first, last := m.turn.took[0], m.turn.took[len(m.turn.took)-1]
	m.turn.took = nil
	lines := fmt.Sprintf("line %d", first.Line)
	if last.Line > first.Line {
		lines = fmt.Sprintf("lines %d to %d", first.Line, last.Line)
	}
	m.notice("%s of the input answered %q", lines, first.Prompt)
}

// serve gives queued input to the waits, the runtime's first. Clients then see the first wait
// that is left.
func (m *machine) serve() {
	for m.shown == nil && len(m.asked) > 0 {
		i := m.next()
		a := m.asked[i]
		if a.NeedsUser() || m.queue.empty() {
			e := m.record(a.event())
			m.asked[i].ID, a.ID = e.Seq, e.Seq
			m.shown = &a
			m.move(phaseWaiting)
			return
		}
		m.asked = append(m.asked[:i:i], m.asked[i+1:]...)
		m.give(a)
	}
	if len(m.asked) == 0 {
		m.effect(effect{do: doLook})
	}
}

// next returns the index of the wait to serve: one that takes queued input, or else the first
// that is not a terminal reader's.
func (m *machine) next() int {
	first := func(match func(ask) bool) int { return slices.IndexFunc(m.asked, match) }
	if !m.queue.empty() {
		if i := first(func(a ask) bool { return !a.Terminal && !a.NeedsUser() }); i >= 0 {
			return i
		}
		if i := first(func(a ask) bool { return a.Terminal }); i >= 0 {
			return i
		}
	}
	return max(0, first(func(a ask) bool { return !a.Terminal }))
}

// event returns the event that begins a wait.
func (a ask) event() timeline.InputRequested {
	e := timeline.InputRequested{Prompt: a.Prompt, Kind: a.Kind, Terminal: a.Terminal, Reader: a.Reader}
	if a.Permission != nil {
		e.PermissionID, e.Denied = a.Permission.ID, a.Permission.AccessDenied
	}
	return e
}

// give gives the next piece of queued input to one wait.
func (m *machine) give(a ask) {
	author := m.queue.author
	m.turn.struck = time.Time{} // the code goes on after the interrupt
	data, eof := m.queue.next(a.all)
	if a.Secret && !m.showSecrets { // including any text after it, which the next reader may get
		m.hide(string(data) + string(m.queue.data))
	}
	if !a.Terminal {
		m.effect(effect{do: doSend, message: ipc.TurnInput{Turn: a.Turn, Wait: a.worker, Input: data, EOF: eof}})
		return
	}
	// The runtime does not see the input of its child processes, so we record it here.
	line := timeline.InputLine{Prompt: a.Prompt, Secret: a.Secret, Author: author}
	if !a.Secret {
		line.Text = string(clip(trimNewline(data), timeline.MaxInputBytes))
	}
	m.record(line)
	m.lastLine = m.lastLine[:0]
	m.fed[a.reader] = true
	m.effect(effect{do: doFeed, input: session.Input{Data: data, EOF: eof}})
}

// hide makes the timeline hide a secret, before any code can print it.
func (m *machine) hide(secret string) {
	if err := m.log.AddSecret(secret); err != nil {
		m.notice("a secret is shown if the code prints it: %v", err)
	}
}

// answer gives input to the wait that clients see, and returns its turn.
func (m *machine) answer(author string, wait timeline.Seq, in session.Input) (turn uint64, err error) {
	switch {
	case m.isClosed():
		return 0, session.ErrClosed
	case m.phase != phaseWaiting || m.shown.ID != wait:
		return 0, session.ErrStale
	case m.shown.Permission != nil:
		return 0, &session.Error{Kind: session.KindPermission, InputRequest: &m.shown.InputRequest, Message: "no input answers this wait: a person allows or refuses it, with repl allow, at repl attach, or when the client asks"}
	case m.shown.Form != nil:
		return m.turn.id, m.fill(*m.shown, in)
	case len(in.Data)+len(m.queue.data) > MaxInputBytes:
		return 0, session.NewTooLargeError(len(in.Data) + len(m.queue.data))
	}
	turn = m.turn.id
	if len(in.Data) == 0 && !in.EOF {
		return turn, nil // empty input: the wait goes on
	}
	m.queue.add(author, in)
	a := *m.shown
	m.shown = nil
	m.asked = slices.DeleteFunc(m.asked, func(one ask) bool { return one.ID == wait })
	m.record(timeline.InputRequestEnded{Request: wait})
	m.resume()
	m.give(a)
	m.serve()
	return turn, nil
}

// resume returns from the waiting phase to the phase before.
func (m *machine) resume() {
	if m.turn.id == 0 {
		m.move(phaseStarting)
	} else {
		m.move(phaseRunning)
	}
}

// leave notes who reads the terminal when an interrupt strikes.
func (m *machine) leave(now time.Time) {
	for _, a := range m.asked {
		if a.reader != "" {
			if m.left == nil {
				m.left = make(map[string]time.Time)
			}
			m.left[a.reader] = now
		}
	}
}

// strikesLater notes that an interrupt has struck nobody yet: on a busy machine its signals may
// still be under way after leaveTime. Those that cannot be sent for sendLimit are not awaited.
func (m *machine) strikesLater(now time.Time) {
	if now.Sub(m.turn.struck) < sendLimit {
		for reader := range m.left {
			m.left[reader] = now
		}
	}
}

// dropWaits ends every wait, with or without an answer. Held calls are refused.
func (m *machine) dropWaits() {
	for _, a := range m.asked {
		if a.call > 0 {
			m.permit(a.call, false)
		}
	}
	if m.shown != nil {
		m.record(timeline.InputRequestEnded{Request: m.shown.ID})
	}
	m.shown, m.asked = nil, nil
	clear(m.fed)
}

func withNewline(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return append(b, '\n')
	}
	return b
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}
