package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// interruptTimeout is how long Interrupt waits for a turn to end. The next interrupt after that
	// has level 2.
	interruptTimeout = time.Second

	// A worker can miss a signal in the moment before it blocks. So the machine repeats an
	// interrupt that is not acknowledged, after 30, 60, 120, … ms, up to maxInterruptRetries times. All
	// retries carry the same number, so the worker acts on only one of them.
	firstInterruptRetryDelay = 30 * time.Millisecond
	maxInterruptRetries      = 6

	// endGrace is how long a process may take to exit after session_end, unless a turn that may
	// exit ended it. A runtime may have much memory to free.
	endGrace = 10 * time.Second

	// earlyInputTimeout is how long the machine waits for worker_ready when a worker seems to read
	// the terminal before it. Some workers must never do so.
	earlyInputTimeout = 2 * time.Second

	// maxPendingRequests bounds the open input requests of one turn.
	maxPendingRequests = 1024

	// signalTimeout is how long a turn waits for the signals of the previous turn. The monitor
	// usually sends them within microseconds. After the timeout, the turn is skipped with a notice.
	signalTimeout = 10 * time.Second
)

// A sessionMachine holds the state of a session and decides what comes next. Each method handles
// one event or only reads state. It writes events to the timeline and collects effects for its
// caller. It has no lock, goroutine or timer and does not know the process. Its caller holds the
// session's lock and then performs the effects (Session.unlock).
type sessionMachine struct {
	machineConfig

	phase              phase
	stateSince         time.Time // when the session entered its state
	generation         uint64
	stopStep           string // the step of the shutdown escalation that ended the last worker
	prompt             string
	continuationPrompt string // the prompt of an input's further lines; "" for the default
	workerReport              // of the current worker; zero without a worker

	turnHistory

	keysTaken    bool           // a program has taken the terminal's keys
	requests     []inputRequest // the open input requests, in order
	shownRequest *inputRequest  // the input request that clients see
	queue        inputQueue
	grantTable
	knownReaders       map[string]bool      // keys of the terminal readers that blocked before the turn started
	fedReaders         map[string]bool      // keys of the terminal readers that got input
	interruptedReaders map[string]time.Time // when an interrupt hit each terminal reader, by key

	pendingInterrupt ipc.Interrupt   // the interrupt being repeated; Seq is 0 without one
	retryCount       int             // how often it was repeated
	deadline         time.Time       // time of the next retry, or of the end of a wait for the worker; zero for never
	overtimeAt       time.Time       // time of the next step against a turn over its limit; zero for never
	effects          []machineEffect // for the caller to perform, in order
	changed          bool            // something changed that waiters may need to see
}

// A machineConfig holds what a sessionMachine needs from its session and never changes itself.
type machineConfig struct {
	grantHint       func(session.Grant) string // Options.GrantHint for this session; may be nil
	log             *timeline.Log
	startTimeout    time.Duration
	showSecrets     bool
	earlyInputFault string // copied from the Spec
	turnLimit       time.Duration
	takeCalls       func() []timeline.Call // returns the calls since its last call; nil if there are never any
}

// A turnHistory holds the active turn of a session, the turns around it and what they left.
type turnHistory struct {
	lastTurn        uint64
	beforeFirstTurn bool             // no turn has started in this generation
	startSeq        timeline.Seq     // the last event before the worker's start
	lastWorkerEnd   []timeline.Event // how the previous worker ended, until the next turn that is not silent
	hasUserTurn     bool             // a turn that is not silent has started
	turn            *turn            // the active turn; the start-up is turn 0
	previousTurn    *turn            // the previous turn
	earlyTurn       *turn            // submitted before the session was ready: queued, or an answer to the start-up
	recentTurns     []*turn          // the last turns, for Wait
	lastLine        []byte           // the unfinished last line of the active turn's output, bounded
}

// A workerReport holds what one worker has reported, and its fault, if any.
type workerReport struct {
	ready             *ipc.WorkerReady // nil until the worker is ready
	userHandlesSigint bool
	fault             error                 // why the worker is killed; nil without a fault
	endFrame          *ipc.SessionEnd       // the worker's last frame
	endInterrupted    bool                  // the worker was interrupted after its last frame
	exitEvent         timeline.WorkerExited // how the worker exited, for the turn that ends with it
}

// A machineEffect tells the session what to do for its machine, while the session holds its lock.
type machineEffect struct {
	kind    effectKind
	message ipc.Message        // for doSend, doInterrupt, doRepeatInterrupt and doAnswerQuery
	turn    *turn              // for doAwaitSignals
	input   session.Input      // for doFeedTerminal
	call    uint64             // for doAnswerCall
	ok      bool               // for doAnswerCall
	form    session.FormAnswer // for doAnswerCall, if the call has a form
}

type effectKind uint8

const (
	doSend            effectKind = iota // send the message; if that fails, call failWorker
	doInterrupt                         // send the message, then the signal
	doRepeatInterrupt                   // repeat the interrupt, only for the worker
	doSignal                            // send only the signal, to a worker that reads no more messages
	doAwaitSignals                      // call handleSignalsSent once no signal is in flight to the worker
	doResetDenials                      // let the sandbox report its denials again
	doKill
	doFeedTerminal     // give the input to the terminal's reader
	doScanReaders      // start scanning for terminal readers
	doScanReadersLater // scan for terminal readers once an interrupt has taken effect
	doAnswerQuery      // answer a query
	doAnswerCall       // answer a pending call or form
)

func (m *sessionMachine) addEffect(e machineEffect) { m.effects = append(m.effects, e) }

// moveTo changes the phase. Nothing else does.
func (m *sessionMachine) moveTo(to phase) {
	if !isLegalTransition(m.phase, to) {
		panic(fmt.Sprintf("supervisor: illegal transition from %s to %s", m.phase, to))
	}
	if m.phase.state() != to.state() {
		m.stateSince, m.changed = time.Now(), true
	}
	m.changed = m.changed || m.phase == phaseLeaving // waits do not last while a worker is leaving
	m.updateTurnClock(to)
	m.phase = to
}

// isClosed reports whether the session is closed or closing.
func (m *sessionMachine) isClosed() bool { return m.phase == phaseClosing || m.phase == phaseClosed }

// recordEvent appends an event about the session itself. It never blocks: a slow disk delays only
// text and images.
func (m *sessionMachine) recordEvent(body timeline.Body) timeline.Event {
	if _, line := body.(timeline.InputLine); !line {
		m.reportLines()
	}
	return m.log.Append(m.newEvent(body))
}

func (m *sessionMachine) recordNotice(format string, args ...any) {
	m.recordEvent(timeline.Notice{Message: fmt.Sprintf(format, args...)})
}

func (m *sessionMachine) newEvent(body timeline.Body) timeline.Event {
	e := timeline.Event{Generation: m.generation, Body: body}
	if m.turn != nil {
		e.Turn, e.Silent = m.turn.id, m.turn.silent
	} else {
		e.Turn, e.BetweenTurns = m.lastTurn, true
	}
	return e
}

// outputEvent returns the event for output of the runtime. text holds its bytes if it is text. The
// caller appends the event without holding the lock, because the disk may be slow.
func (m *sessionMachine) outputEvent(body timeline.Body, text []byte) timeline.Event {
	m.reportLines()
	if m.turn != nil {
		m.turn.outputBytes += int64(len(text))
		if t, ok := body.(timeline.Text); ok && len(m.hiddenPaths)+len(m.unshownPaths) > 0 {
			m.scanMessages(t)
		}
		m.lastLine = appendLastLine(m.lastLine, text)
	}
	return m.newEvent(body)
}

// inputRefusal returns why the session accepts no input now, or nil if it does.
func (m *sessionMachine) inputRefusal() error {
	switch m.phase {
	case phaseIdle, phaseEnded:
		return nil
	case phasePreparing, phaseLaunching, phaseStarting:
		if m.earlyTurn == nil {
			return nil
		}
	case phaseWaiting:
		return session.NewWaitingError(m.shownRequest.InputRequest)
	case phaseClosing, phaseClosed:
		return session.ErrClosed
	}
	return m.busyError()
}

func (m *sessionMachine) busyError() error {
	turn, started := uint64(0), m.stateSince
	if m.turn != nil {
		turn, started = m.turn.id, m.turn.started
	}
	return session.NewBusyError(m.phase.state(), turn, time.Since(started))
}

// submitTurn accepts an input and returns its number. Without a worker, the caller has to start
// one. known holds the keys of the programs that already read the terminal.
func (m *sessionMachine) submitTurn(t *turn, known map[string]bool) (number uint64, err error) {
	if err := m.inputRefusal(); err != nil {
		return 0, err
	}
	m.lastTurn++
	t.id, t.number = m.lastTurn, m.lastTurn
	t.beforeSeq, t.startSeq = m.log.LastSeq(), m.log.LastSeq()
	if m.beforeFirstTurn {
		t.startSeq = m.startSeq
	}
	t.lastWorkerEnd = m.lastWorkerEnd
	if len(m.recentTurns) == maxKnownTurns {
		m.recentTurns = append(m.recentTurns[:0], m.recentTurns[1:]...)
	}
	m.recentTurns = append(m.recentTurns, t)
	if m.phase == phaseIdle {
		m.knownReaders, m.interruptedReaders = known, nil
		m.beginTurn(t)
	} else {
		m.earlyTurn = t
	}
	return m.lastTurn, nil
}

// queuedTurn returns the input that is queued until the session is ready.
func (m *sessionMachine) queuedTurn() *turn {
	if m.earlyTurn != nil && m.earlyTurn.id > 0 {
		return m.earlyTurn
	}
	return nil
}

// withdrawTurn takes back a queued input. It reports whether the input never ran.
func (m *sessionMachine) withdrawTurn(t *turn) bool {
	if m.queuedTurn() == t {
		m.dropQueuedTurn(timeline.OutcomeEnded)
		m.lastTurn-- // no caller knows this number
	}
	return t.outcome == timeline.OutcomeEnded && t.started.IsZero()
}

// dropQueuedTurn drops the queued input, which then never runs.
func (m *sessionMachine) dropQueuedTurn(outcome timeline.Outcome) {
	if t := m.queuedTurn(); t != nil {
		m.earlyTurn = nil
		m.setOutcome(t, outcome)
	}
}

// startGeneration starts a generation. The caller prepares the worker, if necessary, and launches
// it.
func (m *sessionMachine) startGeneration(worker string, prepare bool) {
	if prepare {
		m.moveTo(phasePreparing)
	} else {
		m.moveTo(phaseLaunching)
	}
	m.generation++
	m.stopStep = ""
	m.beforeFirstTurn, m.startSeq = true, m.log.LastSeq()
	m.turn = &turn{beforeSeq: m.startSeq, started: time.Now()}
	m.recordEvent(timeline.WorkerStarted{Worker: worker})
}

// handlePrepared handles the end of the preparation. The caller can launch the worker now.
func (m *sessionMachine) handlePrepared(done int64, notices []string) {
	m.recordEvent(timeline.Preparation{Done: done, Total: done})
	m.startSeq = m.log.LastSeq() // replies leave the preparation out
	for _, n := range notices {
		m.recordNotice("%s", n)
	}
	if t := m.queuedTurn(); t != nil {
		t.beforeSeq, t.startSeq = m.startSeq, m.startSeq
	}
	m.moveTo(phaseLaunching)
}

// handleLaunched handles the start of the worker's process.
func (m *sessionMachine) handleLaunched() {
	m.deadline = time.Now().Add(m.startTimeout)
	m.moveTo(phaseStarting)
}

// handleNoProcess handles the end of a generation in which no process started.
func (m *sessionMachine) handleNoProcess(report timeline.WorkerExited) {
	m.recordEvent(report)
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	m.dropQueuedTurn(timeline.OutcomeEnded)
	m.beforeFirstTurn = false
	m.moveTo(phaseEnded)
}

// beginTurn starts a turn on the idle worker.
func (m *sessionMachine) beginTurn(t *turn) {
	m.recordCalls() // calls between the turns
	m.beforeFirstTurn = false
	t.started, t.timeLeft = time.Now(), m.turnLimit
	m.turn = t
	if !t.silent {
		m.hasUserTurn, m.lastWorkerEnd = true, nil
	}
	m.reportedDenials, m.unreportedDenials = nil, 0
	m.lastLine = m.lastLine[:0]
	m.recordEvent(timeline.TurnStarted{Input: copyPrefix(t.input, timeline.MaxInputBytes), InputBytes: len(t.input), Author: t.author})
	m.moveTo(phaseSending)
	if m.monitorReported {
		m.monitorReported = false
		m.addEffect(machineEffect{kind: doResetDenials})
	}
	m.addEffect(machineEffect{kind: doAwaitSignals, turn: t})
}

// handleSignalsSent handles the point after which no signal for the previous turn can reach t.
// inTime is false if such a signal was still pending at the timeout.
func (m *sessionMachine) handleSignalsSent(t *turn, inTime bool) {
	switch {
	case m.phase != phaseSending || m.turn != t:
	case inTime:
		m.moveTo(phaseRunning)
		m.addEffect(machineEffect{kind: doSend, message: ipc.TurnStart{Turn: t.id, Input: t.input, Silent: t.silent, NoExit: !t.mayExit}})
		m.addEffect(machineEffect{kind: doScanReaders})
		t.input = nil
	default:
		m.skipTurn(fmt.Sprintf("turn %d was skipped: the previous turn's interrupt was still undelivered after %s and must not hit this turn", t.id, signalTimeout))
	}
}

// skipTurn ends a turn that never reached the worker.
func (m *sessionMachine) skipTurn(why string) {
	m.recordNotice("%s", why)
	m.finishTurn(timeline.OutcomeInterrupted, nil, m.prompt)
	m.moveTo(phaseIdle)
}

// finishTurn ends the active turn with its input requests, its input and its retries.
func (m *sessionMachine) finishTurn(outcome timeline.Outcome, e *ipc.RuntimeError, prompt string) {
	t := m.turn
	if t == nil {
		return
	}
	m.stopRetries()
	m.endScreen()
	m.dropRequests()
	m.dropQueuedInput()
	m.reportMaskedPath(e)
	m.reportPrivatePath(e)
	m.reportDeniedCount() // last: a denial needs no other explanation
	m.recordCalls()
	t.elapsed = time.Since(t.started)
	if t.id > 0 {
		ended := timeline.TurnEnded{Outcome: outcome, Prompt: prompt, Elapsed: t.elapsed}
		if e != nil {
			ended.Name, ended.Message = e.Name, e.Message
		} else if outcome == timeline.OutcomeEnded {
			ended.Message, ended.Code, ended.Signal = m.exitEvent.FullReason(), m.exitEvent.ExitCode, m.exitEvent.Signal
		}
		m.recordEvent(ended)
	}
	m.turn, m.previousTurn = nil, t
	m.setOutcome(t, outcome)
	if joined := m.earlyTurn; joined != nil && m.queuedTurn() == nil {
		m.earlyTurn = nil
		joined.elapsed, joined.outputBytes = t.elapsed, t.outputBytes
		m.setOutcome(joined, outcome)
	}
}

func (m *sessionMachine) setOutcome(t *turn, outcome timeline.Outcome) {
	t.outcome, t.input = outcome, nil
	m.changed = true
}

// handleTimer performs what is due if its time has come.
func (m *sessionMachine) handleTimer() {
	if !m.overtimeAt.IsZero() && !time.Now().Before(m.overtimeAt) {
		m.enforceTurnLimit()
	}
	if m.deadline.IsZero() || time.Now().Before(m.deadline) {
		return
	}
	m.deadline = time.Time{}
	switch {
	case m.endFrame != nil:
		m.failWorker(errors.New("it did not exit after session_end"))
	case m.ready == nil:
		m.failWorker(fmt.Errorf("it was not ready after %s", m.startTimeout))
	default:
		m.addEffect(machineEffect{kind: doRepeatInterrupt, message: m.pendingInterrupt})
		if m.retryCount++; m.retryCount < maxInterruptRetries {
			m.deadline = time.Now().Add(firstInterruptRetryDelay << m.retryCount)
			return
		}
		m.stopRetries() // no acknowledgement will come, so count the worker's input requests again
		m.reopenRequests()
	}
}

// failWorker kills the worker because of a fault.
func (m *sessionMachine) failWorker(cause error) {
	if m.fault == nil {
		m.fault = cause
	}
	m.addEffect(machineEffect{kind: doKill})
}

// prepareStop prepares the end of the worker, if there is one. It moves to phaseClosing when the
// session closes, and otherwise to phaseStopping. busy reports that running code has to be
// interrupted.
func (m *sessionMachine) prepareStop(to phase) (busy bool) {
	switch m.phase {
	case phasePreparing, phaseLaunching, phaseEnded:
		if to == phaseClosing {
			m.moveTo(phaseClosed)
		}
		return false
	}
	busy = m.phase != phaseIdle && m.endFrame == nil && (m.shownRequest == nil || m.shownRequest.Terminal || m.shownRequest.NeedsUser())
	m.stopRetries()
	m.refusePendingCalls()
	m.moveTo(to)
	return busy
}

// isStopping reports whether the session is stopping the worker.
func (m *sessionMachine) isStopping() bool {
	return m.phase == phaseStopping || m.phase == phaseClosing
}

// handleExit handles the exit of the worker and completes the report about it.
func (m *sessionMachine) handleExit(report timeline.WorkerExited) timeline.WorkerExited {
	report.NeverReady = m.turn != nil && m.turn.id == 0 && !m.isStopping()
	next := phaseEnded
	switch {
	case m.phase == phaseClosing:
		report.Reason, report.Clean, next = "closed", true, phaseClosed
	case m.phase == phaseStopping:
		report.Reason, report.Clean = "reset", true
	case m.fault != nil:
		report.Reason = "worker failed: " + m.fault.Error()
	case m.endFrame != nil:
		report.Clean = report.Signal == "" && m.endFrame.Reason != ipc.EndCrash
		report.Message = m.endFrame.Message
	}
	m.requests = slices.DeleteFunc(m.requests, func(r inputRequest) bool { return r.callID > 0 }) // the calls have ended with the worker
	if m.turn != nil && m.turn.id > 0 && !report.Clean {
		report.LastLine = m.turn.lastLine
	}
	m.exitEvent = report
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	if end := m.recordEvent(report); !report.NeverReady {
		m.lastWorkerEnd = []timeline.Event{end}
	}
	m.dropQueuedTurn(timeline.OutcomeEnded)
	m.beforeFirstTurn = false
	m.workerReport, m.knownReaders, m.prompt, m.continuationPrompt, m.deadline = workerReport{}, nil, "", "", time.Time{}
	m.moveTo(next)
	return report
}

// dropQueuedInput empties the input queue and records how much it dropped.
func (m *sessionMachine) dropQueuedInput() {
	if n := m.queue.dropAll(); n > 0 {
		m.recordNotice("%d bytes of unread input were dropped", n)
	}
}

// copyPrefix returns a copy of the first n bytes of b.
func copyPrefix(b []byte, n int) []byte { return bytes.Clone(b[:min(len(b), n)]) }

// appendLastLine returns the end of the output after the last newline, at most maxPromptBytes
// bytes.
func appendLastLine(line, b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			line, b = line[:0], b[i+1:]
			break
		}
		if len(b)-i > maxPromptBytes {
			line, b = line[:0], b[i:]
			break
		}
	}
	line = append(line, b...)
	return line[max(0, len(line)-maxPromptBytes):]
}

// maxPromptBytes bounds a prompt that is taken from the terminal's output, in bytes.
const maxPromptBytes = 256
