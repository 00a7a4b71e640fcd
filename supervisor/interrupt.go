package supervisor

import (
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// interruptTurn interrupts a turn, or the active turn if number is 0. It returns the turn whose end
// the caller should wait for, and the newest event before any effect. The turn is nil if the result
// is already known.
func (m *sessionMachine) interruptTurn(author string, number uint64) (t *turn, seen timeline.Seq, known session.InterruptResult, err error) {
	if queued := m.queuedTurn(); queued != nil && !m.isClosed() && (number == 0 || number == queued.id) {
		m.recordNotice("turn %d was interrupted before it ran%s", queued.id, authorSuffix(author))
		m.dropQueuedTurn(timeline.OutcomeInterrupted)
		// A caller that names no turn also means the start-up, which may hang.
		if number != 0 || m.ready == nil {
			return nil, 0, session.InterruptIdle, nil
		}
	}
	t = m.turn
	leaving := t != nil && m.phase == phaseLeaving && (number == 0 || number == t.id)
	over := t == nil || m.phase == phasePreparing || m.phase == phaseLaunching || m.phase.state() == session.StateStopping
	switch {
	case m.isClosed():
		return nil, 0, session.InterruptNotRunning, m.closedError()
	case leaving:
		return t, m.interruptEndingWorker(t, author), "", nil
	case over && (number == 0 || number > m.lastTurn):
		return nil, 0, session.InterruptNotRunning, nil
	case over || number != 0 && number != t.id:
		return nil, 0, session.InterruptStale, nil
	case m.ready == nil:
		// A signal now would kill the interpreter in the middle of its start.
		return nil, 0, session.InterruptNotRunning, nil
	case m.phase == phaseSending:
		m.skipTurn(fmt.Sprintf("turn %d was interrupted before it ran%s", t.id, authorSuffix(author)))
		return nil, 0, session.InterruptIdle, nil
	}
	return t, m.sendInterrupt(t, author), "", nil
}

// authorSuffix returns the words that name the author in a notice.
func authorSuffix(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

// sendInterrupt sends one interrupt. It returns the newest event before the interrupt.
func (m *sessionMachine) sendInterrupt(t *turn, author string) timeline.Seq {
	t.interrupts++
	level, now := 1, time.Now()
	if !t.interruptedAt.IsZero() && (now.Sub(t.interruptedAt) >= interruptTimeout || m.shownRequest != nil && m.shownRequest.ID > t.interruptSeq) {
		level = 2
	}
	seen := m.recordEvent(timeline.Interrupt{Level: level, Author: author}).Seq
	if t.interruptedAt.IsZero() || level > 1 {
		t.interruptedAt, t.interruptSeq = now, seen
	}
	m.dropQueuedInput()
	m.pendingInterrupt = ipc.Interrupt{Turn: t.id, Seq: t.interrupts, Level: uint8(level)}
	m.retryCount, m.deadline = 0, now.Add(firstInterruptRetryDelay)
	m.addEffect(machineEffect{kind: doInterrupt, message: m.pendingInterrupt}) // before pending calls are refused, so that the signal ends them
	if !m.userHandlesSigint || level > 1 {                                     // otherwise the user's handler decides whether a reader continues
		t.interruptUnacked = true
		m.noteInterruptedReaders(now)
		for _, r := range m.requests {
			if r.Permission != nil {
				t.interruptedCalls = append(t.interruptedCalls, r.Permission.AccessDenied)
			}
		}
		m.dropRequests()
		if m.phase == phaseWaiting {
			m.resumeTurn()
		}
	}
	return seen
}

// interruptEndingWorker interrupts a worker that is running its finalizers after session_end. A
// second interrupt kills it.
func (m *sessionMachine) interruptEndingWorker(t *turn, author string) timeline.Seq {
	t.interrupts++
	if m.endInterrupted {
		m.addEffect(machineEffect{kind: doKill})
		return m.recordEvent(timeline.Interrupt{Level: 2, Author: author}).Seq
	}
	m.endInterrupted = true
	m.addEffect(machineEffect{kind: doSignal})
	return m.recordEvent(timeline.Interrupt{Level: 1, Author: author}).Seq
}

// stopRetries stops repeating an interrupt that was acknowledged or is no longer needed.
func (m *sessionMachine) stopRetries() {
	if m.pendingInterrupt.Seq > 0 {
		m.pendingInterrupt, m.deadline = ipc.Interrupt{}, time.Time{}
	}
}

// reopenRequests lets readers that survived an interrupt ask again, and schedules a scan for
// terminal readers.
func (m *sessionMachine) reopenRequests() {
	m.turn.interruptUnacked = false
	if len(m.requests) > 0 { // requests that arrived in the meantime
		m.serveInput()
	}
	m.addEffect(machineEffect{kind: doScanReadersLater})
}
