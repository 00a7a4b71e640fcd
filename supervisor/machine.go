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

const (
	// interruptTimeout is how long an interrupt may take to end its turn. After that, Interrupt
	// returns, and the next interrupt has level 2.
	interruptTimeout = time.Second

	// A worker can miss a signal in the moment before it blocks. So the machine repeats an
	// interrupt that is not acknowledged, after 30, 60, 120, … ms, maxRetries times. All
	// retries carry the same number, so the worker acts on one of them only.
	firstRetryDelay = 30 * time.Millisecond
	maxRetries      = 6

	// endGrace is how long a process may take to end after session_end, unless a turn that may
	// exit has ended it. A runtime may have much memory to free.
	endGrace = 10 * time.Second

	// earlyInputTimeout is how long we wait for worker_ready when a worker seems to read the terminal
	// before it. Some workers must not do so.
	earlyInputTimeout = 2 * time.Second

	// maxPendingRequests bounds the readers of one turn that wait for input at the same time.
	maxPendingRequests = 1024
)

// A sessionMachine knows the state of a session, and decides what comes next. Each of its methods
// handles one event, or only looks. It writes events to the timeline and collects effects for
// its caller. It has no lock, no goroutine and no timer, and knows no process. Its caller
// holds the session's lock and then performs the effects (Session.unlock).
type sessionMachine struct {
	grantHint       func(session.Grant) string // Options.GrantHint for this session; may be nil
	log             *timeline.Log
	startTimeout    time.Duration
	showSecrets     bool
	earlyInputFault string // copied from the Spec
	turnLimit       time.Duration
	takeCalls       func() []timeline.Call // what was called since it was last asked; nil: nothing ever is

	phase              phase
	stateSince         time.Time // when the session entered its state
	generation         uint64
	stopStep           string // the rung of the stop ladder that ended the last worker
	prompt             string
	continuationPrompt string // the prompt of an input's further lines, where it is not the usual one
	workerReport              // of the current worker; zero without a worker

	lastTurn        uint64
	beforeFirstTurn bool             // no turn has begun in this generation
	startSeq        timeline.Seq     // the events of the worker's start come behind it
	lastWorkerEnd   []timeline.Event // the end of the worker before, until a caller's turn begins
	hasUserTurn     bool             // a turn has begun that is not silent
	turn            *turn            // the active turn; the start-up is turn 0
	previousTurn    *turn            // the turn before
	earlyTurn       *turn            // submitted before the session was ready: held, or an answer to the start-up
	recentTurns     []*turn          // the last turns, for Wait
	lastLine        []byte           // the unfinished last line of the active turn's output, bounded

	keysTaken    bool           // a program has taken the terminal's keys
	requests     []inputRequest // the open waits, in order
	shownRequest *inputRequest  // the wait that clients see
	queue        inputQueue
	grantTable
	knownReaders       map[string]bool      // keys of the terminal readers that blocked before the turn began
	fedReaders         map[string]bool      // keys of the terminal readers that got input
	interruptedReaders map[string]time.Time // keys of the terminal readers that an interrupt struck, and when

	pendingInterrupt ipc.Interrupt   // the interrupt that is repeated; Seq 0 without one
	retryCount       int             // how often it was repeated
	deadline         time.Time       // when the next retry, or the end of a wait for the worker, is due; zero for never
	overtimeAt       time.Time       // when the next step against a turn that is over its limit is due; zero for never
	effects          []machineEffect // for the caller to perform, in order
	changed          bool            // a waiter may want to know that something changed
}

// A workerReport holds what one worker has said, and its fault, if any.
type workerReport struct {
	ready             *ipc.WorkerReady // nil until the worker is ready
	userHandlesSigint bool
	fault             error                 // why the worker has to end; nil without a fault
	endFrame          *ipc.SessionEnd       // its last frame
	endInterrupted    bool                  // and then it was interrupted
	exitEvent         timeline.WorkerExited // how it has ended, for the turn that ends with it
}

// A machineEffect is one action that the session takes for its machine, while it holds its lock.
type machineEffect struct {
	kind    effectKind
	message ipc.Message        // for send, interrupt, repeat and reply
	turn    *turn              // for await
	input   session.Input      // for feed
	call    uint64             // for permit
	ok      bool               // for permit
	form    session.FormAnswer // for permit, if the call has a form
}

type effectKind uint8

const (
	doSend            effectKind = iota // send the message; if that fails, call fail
	doInterrupt                         // send the message, then the signal
	doRepeatInterrupt                   // repeat the interrupt, for the worker alone
	doSignal                            // send the signal alone, to a worker that reads no more messages
	doAwaitSignals                      // call cleared when no signal is on its way to the worker any more
	doResetDenials                      // let the sandbox tell its denials again
	doKill
	doFeedTerminal     // give the input to the terminal's reader
	doScanReaders      // watch for terminal readers from now on
	doScanReadersLater // watch for terminal readers once an interrupt has had its effect
	doAnswerQuery      // answer a query
	doAnswerCall       // answer a held call, or a form
)

func (m *sessionMachine) addEffect(e machineEffect) { m.effects = append(m.effects, e) }

// moveTo is the only place that changes the phase.
func (m *sessionMachine) moveTo(to phase) {
	if !isLegalTransition(m.phase, to) {
		panic(fmt.Sprintf("supervisor: impossible move from %s to %s", m.phase, to))
	}
	if m.phase.state() != to.state() {
		m.stateSince, m.changed = time.Now(), true
	}
	m.changed = m.changed || m.phase == phaseLeaving // waiters do not wait for a worker that leaves
	m.updateTurnClock(to)
	m.phase = to
}

// isClosed reports whether the session is closed, or is being closed.
func (m *sessionMachine) isClosed() bool { return m.phase == phaseClosing || m.phase == phaseClosed }

// recordEvent appends an event about the session itself. It never blocks: with a slow disk, the
// timeline delays only text and images.
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

// outputEvent returns the event for the runtime's output. text holds its bytes, if it is text. The
// caller appends the event without the lock, because the disk may be slow.
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

// inputRefusal returns why the session takes no input now, or nil if it takes one.
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
	turn, begun := uint64(0), m.stateSince
	if m.turn != nil {
		turn, begun = m.turn.id, m.turn.started
	}
	return session.NewBusyError(m.phase.state(), turn, time.Since(begun))
}

// submitTurn takes an input and returns its number. Without a worker, the caller has to start one.
// known holds the keys of the programs that already read the terminal.
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

// queuedTurn returns the input that waits for the session to be ready.
func (m *sessionMachine) queuedTurn() *turn {
	if m.earlyTurn != nil && m.earlyTurn.id > 0 {
		return m.earlyTurn
	}
	return nil
}

// withdrawTurn takes back a held input. It reports whether the input never ran.
func (m *sessionMachine) withdrawTurn(t *turn) bool {
	if m.queuedTurn() == t {
		m.dropQueuedTurn(timeline.OutcomeEnded)
		m.lastTurn-- // no caller knows this number
	}
	return t.outcome == timeline.OutcomeEnded && t.started.IsZero()
}

// dropQueuedTurn ends an input that never ran.
func (m *sessionMachine) dropQueuedTurn(outcome timeline.Outcome) {
	if t := m.queuedTurn(); t != nil {
		m.earlyTurn = nil
		m.setOutcome(t, outcome)
	}
}

// startGeneration begins a generation. The caller prepares the worker, if need be, and launches it.
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

// handlePrepared handles the end of the preparation: the caller can launch the worker now.
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

// handleLaunched handles that the worker's process has started.
func (m *sessionMachine) handleLaunched() {
	m.deadline = time.Now().Add(m.startTimeout)
	m.moveTo(phaseStarting)
}

// handleNoProcess handles that no process started in this generation.
func (m *sessionMachine) handleNoProcess(report timeline.WorkerExited) {
	m.recordEvent(report)
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	m.dropQueuedTurn(timeline.OutcomeEnded)
	m.beforeFirstTurn = false
	m.moveTo(phaseEnded)
}

// beginTurn starts a turn on the idle worker.
func (m *sessionMachine) beginTurn(t *turn) {
	m.recordCalls() // those between the turns
	m.beforeFirstTurn = false
	t.started, t.timeLeft = time.Now(), m.turnLimit
	m.turn = t
	if !t.silent {
		m.hasUserTurn, m.lastWorkerEnd = true, nil
	}
	m.reportedDenials, m.unreportedDenials = nil, 0
	m.lastLine = m.lastLine[:0]
	m.recordEvent(timeline.TurnStarted{Input: clip(t.input, timeline.MaxInputBytes), InputBytes: len(t.input), Author: t.author})
	m.moveTo(phaseSending)
	if m.monitorReported {
		m.monitorReported = false
		m.addEffect(machineEffect{kind: doResetDenials})
	}
	m.addEffect(machineEffect{kind: doAwaitSignals, turn: t})
}

// handleSignalsSent handles that no signal meant for the turn before can reach t any more. inTime is
// false if that was still possible at the time limit.
func (m *sessionMachine) handleSignalsSent(t *turn, inTime bool) {
	switch {
	case m.phase != phaseSending || m.turn != t:
	case inTime:
		m.moveTo(phaseRunning)
		m.addEffect(machineEffect{kind: doSend, message: ipc.TurnStart{Turn: t.id, Input: t.input, Silent: t.silent, NoExit: !t.mayExit}})
		m.addEffect(machineEffect{kind: doScanReaders})
		t.input = nil
	default:
		m.skipTurn(fmt.Sprintf("turn %d was not run: for %s, the interrupt of the turn before could not be sent, and must not reach this one", t.id, signalTimeout))
	}
}

// skipTurn ends a turn that never reached the worker.
func (m *sessionMachine) skipTurn(why string) {
	m.recordNotice("%s", why)
	m.finishTurn(timeline.OutcomeInterrupted, nil, m.prompt)
	m.moveTo(phaseIdle)
}

// finishTurn ends the active turn, with its waits, its input and its retries.
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
	m.reportDeniedCount() // last: what was refused needs no other explanation
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

// handleTimer does what is due, if its time has come.
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
		m.failWorker(errors.New("it lives on after session_end"))
	case m.ready == nil:
		m.failWorker(fmt.Errorf("it was not ready after %s", m.startTimeout))
	default:
		m.addEffect(machineEffect{kind: doRepeatInterrupt, message: m.pendingInterrupt})
		if m.retryCount++; m.retryCount < maxRetries {
			m.deadline = time.Now().Add(firstRetryDelay << m.retryCount)
			return
		}
		m.stopRetries() // no acknowledgement will come, so the worker's questions count again
		m.reopenRequests()
	}
}

// failWorker kills the worker for a fault.
func (m *sessionMachine) failWorker(cause error) {
	if m.fault == nil {
		m.fault = cause
	}
	m.addEffect(machineEffect{kind: doKill})
}

// prepareStop prepares the end of the worker, if there is one. It moves to phaseClosing when the
// session closes, or else to phaseStopping. It reports whether code runs that has to be
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

// isStopping reports whether we are stopping the worker.
func (m *sessionMachine) isStopping() bool {
	return m.phase == phaseStopping || m.phase == phaseClosing
}

// handleExit handles the death of the worker. It completes the report about it.
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
	m.requests = slices.DeleteFunc(m.requests, func(a inputRequest) bool { return a.callID > 0 }) // they have ended with it
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

// dropQueuedInput empties the input queue, and says so in the timeline.
func (m *sessionMachine) dropQueuedInput() {
	if n := m.queue.dropAll(); n > 0 {
		m.recordNotice("%d bytes of input were not read and were dropped", n)
	}
}
