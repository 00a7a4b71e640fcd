package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
)

// handleStdinWait handles an input request of the runtime.
func (m *sessionMachine) handleStdinWait(f ipc.StdinWait) error {
	if m.turn == nil || f.Turn != m.turn.id {
		if f.Turn > m.lastTurn {
			return fmt.Errorf("stdin_wait names turn %d, which has not started", f.Turn)
		}
		return nil // a thread of the previous turn asks; it will ask again in the next turn
	}
	if m.turn.interruptUnacked {
		return nil // the worker asked before it saw the interrupt, which ends this request
	}
	if len(m.requests) == maxPendingRequests {
		return fmt.Errorf("more than %d input requests are open", maxPendingRequests)
	}
	m.openInputRequest(inputRequest{
		InputRequest: session.InputRequest{
			Turn:   m.turn.id,
			Prompt: m.log.Redact(f.Prompt),
			Kind:   timeline.InputKind(f.Kind),
			Secret: f.Kind == ipc.WaitSecret,
		},
		workerWait: f.Wait,
		wantsAll:   f.Want == ipc.WantAll,
	}, f.Prompt)
	return nil
}

// readerExitGrace is how long an interrupted program may still read the terminal before it counts
// as a program that continues. The worker's acknowledgement does not show whether its children have
// received the same signal.
const readerExitGrace = 100 * time.Millisecond

// needsReaderScan reports whether a new terminal reader would matter, or whether a program that polls
// may end its request.
func (m *sessionMachine) needsReaderScan() bool {
	isActive := m.phase == phaseStarting || m.phase == phaseRunning
	return (isActive && len(m.requests) == 0 || m.polledReader() != nil) && !m.turn.interruptUnacked
}

// handleTerminalReader handles a program that reads the terminal.
func (m *sessionMachine) handleTerminalReader(r pty.TerminalReader, s readerScan) {
	if m.ready == nil && m.earlyInputFault != "" {
		if time.Since(m.turn.started) > earlyInputTimeout {
			m.failWorker(errors.New(m.earlyInputFault))
		}
		return
	}
	if m.keysTaken {
		return // it gets keys instead of lines
	}
	if m.knownReaders[r.Key] || m.fedReaders[r.Key] || time.Since(m.interruptedReaders[r.Key]) < readerExitGrace {
		return
	}
	prompt, kind, secret := m.readerPrompt(r, s)
	m.openInputRequest(inputRequest{
		InputRequest: session.InputRequest{
			Turn: m.turn.id, Prompt: prompt, Kind: kind, Secret: secret,
			Terminal: true, Reader: r.Command, Raw: r.Raw, Polls: r.Polls,
		},
		wantsAll:  r.Raw && s.takesPastes,
		readerKey: r.Key,
	}, prompt)
}

// handleScreen handles that a program has taken the terminal's keys or has given them back. While
// it has the keys, its reads are no input requests.
func (m *sessionMachine) handleScreen(on bool) {
	if m.turn == nil || m.keysTaken == on {
		return
	}
	if !on {
		m.endScreen()
		m.addEffect(machineEffect{kind: doScanReaders})
		return
	}
	m.keysTaken = true
	m.dropReaderRequests()
	m.recordEvent(timeline.FullScreenChanged{On: true})
}

func (m *sessionMachine) endScreen() {
	if m.keysTaken {
		m.keysTaken = false
		m.recordEvent(timeline.FullScreenChanged{})
	}
}

// dropReaderRequests ends the input requests of programs that read the terminal.
func (m *sessionMachine) dropReaderRequests() {
	if m.shownRequest != nil && m.shownRequest.Terminal {
		m.recordEvent(timeline.InputRequestEnded{Request: m.shownRequest.ID})
		m.shownRequest = nil
		m.resumeTurn()
	}
	m.requests = slices.DeleteFunc(m.requests, func(r inputRequest) bool { return r.Terminal })
	if m.shownRequest == nil && len(m.requests) > 0 {
		m.serveInput()
	}
}

func (m *sessionMachine) openInputRequest(r inputRequest, prompt string) {
	m.requests = append(m.requests, r)
	if m.queuedTurn() != nil {
		m.answerWithQueuedTurn(prompt)
	}
	m.serveInput()
}

// answerWithQueuedTurn makes an input that was submitted during the start answer the prompt of the
// start-up, which came first.
func (m *sessionMachine) answerWithQueuedTurn(prompt string) {
	t := m.earlyTurn
	t.id = 0
	m.recordNotice("the input answered a prompt of the start-up: %q", prompt)
	m.queue.add(t.author, session.Input{Data: withNewline(t.input)})
	t.input = nil
}

// reportLines records which lines of the turn's own input answered prompts instead of running as
// code. One notice covers consecutive lines.
func (m *sessionMachine) reportLines() {
	if m.turn == nil || len(m.turn.answeredLines) == 0 {
		return
	}
	first, last := m.turn.answeredLines[0], m.turn.answeredLines[len(m.turn.answeredLines)-1]
	m.turn.answeredLines = nil
	lines := fmt.Sprintf("line %d", first.Line)
	if last.Line > first.Line {
		lines = fmt.Sprintf("lines %d to %d", first.Line, last.Line)
	}
	m.recordNotice("%s of the input answered %q", lines, first.Prompt)
}

// serveInput gives queued input to the input requests, the runtime's first. Then clients see the
// first request that remains.
func (m *sessionMachine) serveInput() {
	for m.shownRequest == nil && len(m.requests) > 0 {
		i := m.nextRequest()
		r := m.requests[i]
		if r.NeedsUser() || m.queue.isEmpty() {
			e := m.recordEvent(r.requestEvent())
			m.requests[i].ID, r.ID = e.Seq, e.Seq
			m.shownRequest = &r
			m.moveTo(phaseWaiting)
			return
		}
		m.requests = append(m.requests[:i:i], m.requests[i+1:]...)
		m.deliverInput(r)
	}
	if len(m.requests) == 0 {
		m.addEffect(machineEffect{kind: doScanReaders})
	}
}

// nextRequest returns the index of the request to serve: one that takes queued input, or otherwise
// the first that is not a terminal reader's.
func (m *sessionMachine) nextRequest() int {
	first := func(match func(inputRequest) bool) int { return slices.IndexFunc(m.requests, match) }
	if !m.queue.isEmpty() {
		if i := first(func(r inputRequest) bool { return !r.Terminal && !r.NeedsUser() }); i >= 0 {
			return i
		}
		if i := first(func(r inputRequest) bool { return r.Terminal }); i >= 0 {
			return i
		}
	}
	return max(0, first(func(r inputRequest) bool { return !r.Terminal }))
}

// requestEvent returns the event that reports the request.
func (r inputRequest) requestEvent() timeline.InputRequested {
	e := timeline.InputRequested{Prompt: r.Prompt, Kind: r.Kind, Terminal: r.Terminal, Reader: r.Reader, Raw: r.Raw, Polls: r.Polls}
	if r.Permission != nil {
		e.PermissionID, e.Denied = r.Permission.ID, r.Permission.AccessDenied
	}
	return e
}

// deliverInput gives the next piece of queued input to one request.
func (m *sessionMachine) deliverInput(r inputRequest) {
	author := m.queue.author
	m.turn.interruptedAt = time.Time{} // the code continues after the interrupt
	data, eof := m.queue.nextPiece(r.wantsAll)
	if r.Secret && !m.showSecrets { // including any text after it, which the next reader may get
		m.redactAnswer(string(data) + string(m.queue.data))
	}
	if !r.Terminal {
		m.addEffect(machineEffect{kind: doSend, message: ipc.TurnInput{Turn: r.Turn, Wait: r.workerWait, Input: data, EOF: eof}})
		return
	}
	// The runtime does not see the input of its child processes, so it is recorded here.
	line := timeline.InputLine{Prompt: r.Prompt, Secret: r.Secret, Author: author}
	if !r.Secret {
		line.Text = string(copyPrefix(trimNewline(data), timeline.MaxInputBytes))
	}
	m.recordEvent(line)
	m.lastLine = m.lastLine[:0]
	if r.Polls {
		m.forgetListeners() // it must be still again before it counts as waiting
	} else {
		m.fedReaders[r.readerKey] = true
	}
	m.addEffect(machineEffect{kind: doType, typed: terminalInput{
		Input:  session.Input{Data: data, EOF: eof},
		byKeys: r.Raw, secret: r.Secret, paste: r.wantsAll, program: r.Reader,
	}})
}

// redactAnswer makes the timeline redact a secret before any code can print it.
func (m *sessionMachine) redactAnswer(secret string) {
	if err := m.log.AddSecret(secret); err != nil {
		m.recordNotice("a secret is shown unredacted if the code prints it: %v", err)
	}
}

// answerRequest gives input to the request that clients see, and returns its turn.
func (m *sessionMachine) answerRequest(author string, request timeline.Seq, in session.Input) (turn uint64, err error) {
	switch {
	case m.isClosed():
		return 0, m.closedError()
	case m.phase != phaseWaiting || m.shownRequest.ID != request:
		return 0, session.ErrStale
	case m.shownRequest.Permission != nil:
		return 0, &session.Error{Kind: session.KindPermission, InputRequest: &m.shownRequest.InputRequest, Message: "no input answers this request; the user allows or refuses it with repl grant, in repl attach, or when the client asks"}
	case m.shownRequest.Form != nil:
		return m.turn.id, m.answerForm(*m.shownRequest, in)
	case len(in.Data)+len(m.queue.data) > MaxInputBytes:
		return 0, session.NewTooLargeError(len(in.Data) + len(m.queue.data))
	}
	turn = m.turn.id
	if len(in.Data) == 0 && !in.EOF {
		return turn, nil // empty input: the request stays open
	}
	m.queue.add(author, in)
	r := *m.shownRequest
	m.shownRequest = nil
	m.requests = slices.DeleteFunc(m.requests, func(other inputRequest) bool { return other.ID == request })
	m.recordEvent(timeline.InputRequestEnded{Request: request})
	m.resumeTurn()
	m.deliverInput(r)
	m.serveInput()
	return turn, nil
}

// resumeTurn returns from the waiting phase to the previous phase.
func (m *sessionMachine) resumeTurn() {
	if m.turn.id == 0 {
		m.moveTo(phaseStarting)
	} else {
		m.moveTo(phaseRunning)
	}
}

// noteInterruptedReaders records which programs read the terminal when an interrupt is sent.
func (m *sessionMachine) noteInterruptedReaders(now time.Time) {
	for _, r := range m.requests {
		if r.readerKey != "" {
			if m.interruptedReaders == nil {
				m.interruptedReaders = make(map[string]time.Time)
			}
			m.interruptedReaders[r.readerKey] = now
		}
	}
}

// renewReaderGrace extends the grace of interrupted readers because the signals have not been
// delivered yet. On a busy machine that can take longer than readerExitGrace. It stops extending
// after signalTimeout.
func (m *sessionMachine) renewReaderGrace(now time.Time) {
	if now.Sub(m.turn.interruptedAt) < signalTimeout {
		for reader := range m.interruptedReaders {
			m.interruptedReaders[reader] = now
		}
	}
}

// dropRequests ends every request, answered or not, and refuses pending calls.
func (m *sessionMachine) dropRequests() {
	for _, r := range m.requests {
		if r.callID > 0 {
			m.answerCall(r.callID, false)
		}
	}
	if m.shownRequest != nil {
		m.recordEvent(timeline.InputRequestEnded{Request: m.shownRequest.ID})
	}
	m.shownRequest, m.requests = nil, nil
	clear(m.fedReaders)
	m.forgetListeners()
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
