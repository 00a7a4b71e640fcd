package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// handleFrame handles a frame of the worker. It returns the output for the caller to append;
// without output, the event's Body is nil.
func (m *sessionMachine) handleFrame(f ipc.Message) (output timeline.Event) {
	if m.fault != nil {
		return output // the worker is being killed: ignore the rest
	}
	var violation error // a violation of the protocol
	ready, first := f.(ipc.WorkerReady)
	switch {
	case m.endFrame != nil:
		violation = fmt.Errorf("%s after session_end", f.Type())
	case first:
		violation = m.handleWorkerReady(ready)
	case m.ready == nil:
		violation = fmt.Errorf("its first message is %s, not worker_ready", f.Type())
	default:
		output, violation = m.dispatchFrame(f)
	}
	if violation != nil {
		m.failWorker(violation)
	}
	return output
}

// dispatchFrame handles a frame of a worker that has sent worker_ready.
func (m *sessionMachine) dispatchFrame(f ipc.Message) (output timeline.Event, violation error) {
	switch f := f.(type) {
	case ipc.Output:
		stream := timeline.Stdout
		if f.Stream == ipc.Stderr {
			stream = timeline.Stderr
		}
		return m.outputEvent(timeline.Text{Stream: stream, Data: f.Data, Kind: timeline.TextKind(f.Kind), Begins: f.Begins && f.Kind == ipc.TextResult}, f.Data), nil
	case ipc.Image:
		return m.outputEvent(timeline.Display{Data: map[string][]byte{f.MIME: f.Data}, ID: f.Source, Update: f.Update, Title: f.Title}, nil), nil
	case ipc.Display:
		return m.outputEvent(timeline.Display{Data: f.Data, Meta: f.Meta, ID: f.ID, Update: f.Update, Result: f.Kind == ipc.DisplayResult, Title: f.Title}, nil), nil
	case ipc.Clear:
		return m.outputEvent(timeline.OutputCleared{Wait: f.Wait}, nil), nil
	case ipc.SessionEnd:
		m.handleSessionEnd(f)
		return output, nil
	}
	if m.isStopping() {
		return output, nil // the shutdown escalation decides from here on
	}
	switch f := f.(type) {
	case ipc.Idle:
		return output, m.handleIdle(f)
	case ipc.StdinWait:
		return output, m.handleStdinWait(f)
	case ipc.InputLine:
		m.lastLine = m.lastLine[:0]
		author := m.queue.author
		if f.Line > 0 && m.turn != nil {
			author = m.turn.author
			m.turn.answeredLines = append(m.turn.answeredLines[:min(len(m.turn.answeredLines), 1)], f)
		}
		m.recordEvent(timeline.InputLine{Prompt: f.Prompt, Text: f.Text, Secret: f.Secret, Author: author})
	case ipc.InterruptAck:
		if m.turn != nil && f.Turn == m.turn.id && f.Seq == m.turn.interrupts {
			m.stopRetries()
			m.reopenRequests()
		}
	case ipc.Sigint:
		m.userHandlesSigint = f.Owner != ipc.SigintOurs
		if m.userHandlesSigint && m.turn != nil {
			m.reopenRequests() // an interrupt no longer ends input requests
		}
	case ipc.Progress:
		p := timeline.Progress{Progress: f.Progress, Message: f.Message}
		if f.Total != nil {
			p.Total = *f.Total
		}
		m.recordEvent(p)
	case ipc.QueryResult:
		m.addEffect(machineEffect{kind: doAnswerQuery, message: f})
	default:
		return output, fmt.Errorf("a supervisor does not accept %s", f.Type())
	}
	return output, nil
}

func (m *sessionMachine) handleWorkerReady(f ipc.WorkerReady) error {
	switch {
	case m.ready != nil:
		return errors.New("worker_ready twice")
	case f.Protocol.Name != ipc.ProtocolName || f.Protocol.Version != ipc.ProtocolVersion:
		return fmt.Errorf("it speaks %q version %d, not %q version %d",
			f.Protocol.Name, f.Protocol.Version, ipc.ProtocolName, ipc.ProtocolVersion)
	}
	m.ready = &f
	m.deadline = time.Time{}
	return nil
}

// handleIdle ends the active turn or the start-up.
func (m *sessionMachine) handleIdle(f ipc.Idle) error {
	if m.turn == nil || m.turn.id != f.Turn {
		return fmt.Errorf("idle names turn %d, which is not active", f.Turn)
	}
	m.prompt, m.continuationPrompt = m.log.Redact(f.Prompt), m.log.Redact(f.Continuation)
	if f.Unrun > 0 {
		m.recordNotice("%s", unrunLinesText(f))
	}
	m.finishTurn(timeline.Outcome(f.Outcome), f.Error, f.Prompt)
	m.moveTo(phaseIdle)
	if t := m.queuedTurn(); t != nil {
		m.earlyTurn = nil
		m.beginTurn(t)
	}
	return nil
}

// unrunLinesText describes how many lines of the input did not run. The output may not show where
// the worker stopped.
func unrunLinesText(f ipc.Idle) string {
	lines, were, cause := "lines", "were", "error"
	if f.Unrun == 1 {
		lines, were = "line", "was"
	}
	if f.Outcome == ipc.OutcomeInterrupted {
		cause = "interrupt"
	}
	return fmt.Sprintf("%d %s after the %s %s not run", f.Unrun, lines, cause, were)
}

// handleSessionEnd handles the last frame. The process accepts no more input and is about to exit.
func (m *sessionMachine) handleSessionEnd(f ipc.SessionEnd) {
	m.endFrame = &f
	m.stopRetries()
	if m.phase.state() != session.StateStopping {
		m.moveTo(phaseLeaving)
	}
	// If the user may end the runtime, there is no deadline: the user can interrupt slow
	// finalizers.
	if m.turn == nil || !m.turn.mayExit {
		m.deadline = time.Now().Add(endGrace)
	}
}
