package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/timeline"
)

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
	m.recordEvent(timeline.TurnStarted{Input: copyPrefix(t.input, timeline.MaxInputBytes), InputBytes: len(t.input), Author: t.author, TraceParent: t.traceParent})
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
		m.addEffect(machineEffect{kind: doSend, message: ipc.TurnStart{Turn: t.id, Input: t.input, Silent: t.silent, NoExit: !t.mayExit, Dialect: ipc.InputDialect(t.dialect)}})
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
	m.checkIdle()
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
