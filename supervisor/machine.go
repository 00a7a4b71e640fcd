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
	// interruptWait is how long an interrupt may take to end its turn. After that, Interrupt
	// returns, and the next interrupt has level 2.
	interruptWait = time.Second

	// A worker can miss a signal in the moment before it blocks. So the machine repeats an
	// interrupt that is not acknowledged, after 30, 60, 120, … ms, maxRetries times. All
	// retries carry the same number, so the worker acts on one of them only.
	firstRetry = 30 * time.Millisecond
	maxRetries = 6

	// endGrace is how long a process may take to end after session_end, unless a turn that may
	// exit has ended it. A runtime may have much memory to free.
	endGrace = 10 * time.Second

	// earlyInput is how long we wait for worker_ready when a worker seems to read the terminal
	// before it. Some workers must not do so.
	earlyInput = 2 * time.Second

	// maxAsked bounds the readers of one turn that wait for input at the same time.
	maxAsked = 1024
)

// A machine knows the state of a session, and decides what comes next. Each of its methods
// handles one event, or only looks. It writes events to the timeline and collects effects for
// its caller. It has no lock, no goroutine and no timer, and knows no process. Its caller
// holds the session's lock and then performs the effects (Session.unlock).
type machine struct {
	remedy       func(session.Grant) string // Options.Remedy for this session; may be nil
	log          *timeline.Log
	startTimeout time.Duration
	showSecrets  bool
	earlyInput   string // copied from the Spec
	turnLimit    time.Duration
	called       func() []timeline.Call // what was called since it was last asked; nil: nothing ever is

	phase      phase
	since      time.Time // when the session entered its state
	generation uint64
	rung       string // the rung of the stop ladder that ended the last worker
	prompt     string
	more       string // the prompt of an input's further lines, where it is not the usual one
	life              // of the current worker; zero without a worker

	lastTurn uint64
	fresh    bool             // no turn has begun in this generation
	startSeq timeline.Seq     // the events of the worker's start come behind it
	lost     []timeline.Event // the end of the worker before, until a caller's turn begins
	used     bool             // a turn has begun that is not silent
	turn     *turn            // the active turn; the start-up is turn 0
	previous *turn            // the turn before
	early    *turn            // submitted before the session was ready: held, or an answer to the start-up
	recent   []*turn          // the last turns, for Wait
	lastLine []byte           // the unfinished last line of the active turn's output, bounded

	taken bool  // a program has taken the terminal's keys
	asked []ask // the open waits, in order
	shown *ask  // the wait that clients see
	queue inputQueue
	rights
	known map[string]bool      // keys of the terminal readers that blocked before the turn began
	fed   map[string]bool      // keys of the terminal readers that got input
	left  map[string]time.Time // keys of the terminal readers that an interrupt struck, and when

	retry   ipc.Interrupt // the interrupt that is repeated; Seq 0 without one
	tries   int           // how often it was repeated
	due     time.Time     // when the next retry, or the end of a wait for the worker, is due; zero for never
	over    time.Time     // when the next step against a turn that is over its limit is due; zero for never
	effects []effect      // for the caller to perform, in order
	news    bool          // a waiter may want to know that something changed
}

// A life holds what one worker has said, and its fault, if any.
type life struct {
	ready             *ipc.WorkerReady // nil until the worker is ready
	userHandlesSigint bool
	cause             error                 // why the worker has to end; nil without a fault
	end               *ipc.SessionEnd       // its last frame
	endInterrupted    bool                  // and then it was interrupted
	died              timeline.WorkerExited // how it has ended, for the turn that ends with it
}

// An effect is one action that the session takes for its machine, while it holds its lock.
type effect struct {
	do      action
	message ipc.Message        // for send, interrupt, repeat and reply
	turn    *turn              // for await
	input   session.Input      // for feed
	call    uint64             // for permit
	ok      bool               // for permit
	form    session.FormAnswer // for permit, if the call has a form
}

type action uint8

const (
	doSend      action = iota // send the message; if that fails, call fail
	doInterrupt               // send the message, then the signal
	doRepeat                  // repeat the interrupt, for the worker alone
	doSignal                  // send the signal alone, to a worker that reads no more messages
	doAwait                   // call cleared when no signal is on its way to the worker any more
	doForget                  // let the sandbox tell its denials again
	doKill
	doFeed      // give the input to the terminal's reader
	doLook      // watch for terminal readers from now on
	doLookLater // watch for terminal readers once an interrupt has had its effect
	doReply     // answer a query
	doPermit    // answer a held call, or a form
)

func (m *machine) effect(e effect) { m.effects = append(m.effects, e) }

// move is the only place that changes the phase.
func (m *machine) move(to phase) {
	if !legal(m.phase, to) {
		panic(fmt.Sprintf("supervisor: impossible move from %s to %s", m.phase, to))
	}
	if m.phase.state() != to.state() {
		m.since, m.news = time.Now(), true
	}
	m.news = m.news || m.phase == phaseLeaving // waiters do not wait for a worker that leaves
	m.clock(to)
	m.phase = to
}

// isClosed reports whether the session is closed, or is being closed.
func (m *machine) isClosed() bool { return m.phase == phaseClosing || m.phase == phaseClosed }

// record appends an event about the session itself. It never blocks: with a slow disk, the
// timeline delays only text and images.
func (m *machine) record(body timeline.Body) timeline.Event {
	if _, line := body.(timeline.InputLine); !line {
		m.reportLines()
	}
	return m.log.Append(m.event(body))
}

func (m *machine) notice(format string, args ...any) {
	m.record(timeline.Notice{Message: fmt.Sprintf(format, args...)})
}

func (m *machine) event(body timeline.Body) timeline.Event {
	e := timeline.Event{Generation: m.generation, Body: body}
	if m.turn != nil {
		e.Turn, e.Silent = m.turn.id, m.turn.silent
	} else {
		e.Turn, e.BetweenTurns = m.lastTurn, true
	}
	return e
}

// output returns the event for the runtime's output. text holds its bytes, if it is text. The
// caller appends the event without the lock, because the disk may be slow.
func (m *machine) output(body timeline.Body, text []byte) timeline.Event {
	m.reportLines()
	if m.turn != nil {
		m.turn.bytes += int64(len(text))
		if t, ok := body.(timeline.Text); ok && len(m.hidden)+len(m.unshown) > 0 {
			m.readMessages(t)
		}
		m.lastLine = lastLine(m.lastLine, text)
	}
	return m.event(body)
}

// refusal returns why the session takes no input now, or nil if it takes one.
func (m *machine) refusal() error {
	switch m.phase {
	case phaseIdle, phaseEnded:
		return nil
	case phasePreparing, phaseLaunching, phaseStarting:
		if m.early == nil {
			return nil
		}
	case phaseWaiting:
		return session.NewWaitingError(m.shown.InputRequest)
	case phaseClosing, phaseClosed:
		return session.ErrClosed
	}
	return m.busy()
}

func (m *machine) busy() error {
	turn, begun := uint64(0), m.since
	if m.turn != nil {
		turn, begun = m.turn.id, m.turn.started
	}
	return session.NewBusyError(m.phase.state(), turn, time.Since(begun))
}

// submit takes an input and returns its number. Without a worker, the caller has to start one.
// known holds the keys of the programs that already read the terminal.
func (m *machine) submit(t *turn, known map[string]bool) (number uint64, err error) {
	if err := m.refusal(); err != nil {
		return 0, err
	}
	m.lastTurn++
	t.id, t.number = m.lastTurn, m.lastTurn
	t.before, t.startSeq = m.log.LastSeq(), m.log.LastSeq()
	if m.fresh {
		t.startSeq = m.startSeq
	}
	t.lost = m.lost
	if len(m.recent) == maxKnownTurns {
		m.recent = append(m.recent[:0], m.recent[1:]...)
	}
	m.recent = append(m.recent, t)
	if m.phase == phaseIdle {
		m.known, m.left = known, nil
		m.begin(t)
	} else {
		m.early = t
	}
	return m.lastTurn, nil
}

// held returns the input that waits for the session to be ready.
func (m *machine) held() *turn {
	if m.early != nil && m.early.id > 0 {
		return m.early
	}
	return nil
}

// withdraw takes back a held input. It reports whether the input never ran.
func (m *machine) withdraw(t *turn) bool {
	if m.held() == t {
		m.dropHeld(timeline.OutcomeEnded)
		m.lastTurn-- // no caller knows this number
	}
	return t.outcome == timeline.OutcomeEnded && t.started.IsZero()
}

// dropHeld ends an input that never ran.
func (m *machine) dropHeld(outcome timeline.Outcome) {
	if t := m.held(); t != nil {
		m.early = nil
		m.finish(t, outcome)
	}
}

// start begins a generation. The caller prepares the worker, if need be, and launches it.
func (m *machine) start(worker string, prepare bool) {
	if prepare {
		m.move(phasePreparing)
	} else {
		m.move(phaseLaunching)
	}
	m.generation++
	m.rung = ""
	m.fresh, m.startSeq = true, m.log.LastSeq()
	m.turn = &turn{before: m.startSeq, started: time.Now()}
	m.record(timeline.WorkerStarted{Worker: worker})
}

// prepared handles the end of the preparation: the caller can launch the worker now.
func (m *machine) prepared(done int64, notices []string) {
	m.record(timeline.Preparation{Done: done, Total: done})
	m.startSeq = m.log.LastSeq() // replies leave the preparation out
	for _, n := range notices {
		m.notice("%s", n)
	}
	if t := m.held(); t != nil {
		t.before, t.startSeq = m.startSeq, m.startSeq
	}
	m.move(phaseLaunching)
}

// launched handles that the worker's process has started.
func (m *machine) launched() {
	m.due = time.Now().Add(m.startTimeout)
	m.move(phaseStarting)
}

// notLaunched handles that no process started in this generation.
func (m *machine) notLaunched(report timeline.WorkerExited) {
	m.record(report)
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	m.dropHeld(timeline.OutcomeEnded)
	m.fresh = false
	m.move(phaseEnded)
}

// begin starts a turn on the idle worker.
func (m *machine) begin(t *turn) {
	m.recordCalls() // those between the turns
	m.fresh = false
	t.started, t.left = time.Now(), m.turnLimit
	m.turn = t
	if !t.silent {
		m.used, m.lost = true, nil
	}
	m.told, m.untold = nil, 0
	m.lastLine = m.lastLine[:0]
	m.record(timeline.TurnStarted{Input: clip(t.input, timeline.MaxInputBytes), InputBytes: len(t.input), Author: t.author})
	m.move(phaseSending)
	if m.heard {
		m.heard = false
		m.effect(effect{do: doForget})
	}
	m.effect(effect{do: doAwait, turn: t})
}

// cleared handles that no signal meant for the turn before can reach t any more. inTime is
// false if that was still possible at the time limit.
func (m *machine) cleared(t *turn, inTime bool) {
	switch {
	case m.phase != phaseSending || m.turn != t:
	case inTime:
		m.move(phaseRunning)
		m.effect(effect{do: doSend, message: ipc.TurnStart{Turn: t.id, Input: t.input, Silent: t.silent, NoExit: !t.mayExit}})
		m.effect(effect{do: doLook})
		t.input = nil
	default:
		m.notRun(fmt.Sprintf("turn %d was not run: for %s, the interrupt of the turn before could not be sent, and must not reach this one", t.id, sendLimit))
	}
}

// notRun ends a turn that never reached the worker.
func (m *machine) notRun(why string) {
	m.notice("%s", why)
	m.finishTurn(timeline.OutcomeInterrupted, nil, m.prompt)
	m.move(phaseIdle)
}

// finishTurn ends the active turn, with its waits, its input and its retries.
func (m *machine) finishTurn(outcome timeline.Outcome, e *ipc.RuntimeError, prompt string) {
	t := m.turn
	if t == nil {
		return
	}
	m.stopRetries()
	m.endScreen()
	m.dropWaits()
	m.dropInput()
	m.tellHidden(e)
	m.tellPrivate(e)
	m.countDenied() // last: what was refused needs no other explanation
	m.recordCalls()
	t.elapsed = time.Since(t.started)
	if t.id > 0 {
		ended := timeline.TurnEnded{Outcome: outcome, Prompt: prompt, Elapsed: t.elapsed}
		if e != nil {
			ended.Name, ended.Message = e.Name, e.Message
		} else if outcome == timeline.OutcomeEnded {
			ended.Message, ended.Code, ended.Signal = m.died.FullReason(), m.died.ExitCode, m.died.Signal
		}
		m.record(ended)
	}
	m.turn, m.previous = nil, t
	m.finish(t, outcome)
	if joined := m.early; joined != nil && m.held() == nil {
		m.early = nil
		joined.elapsed, joined.bytes = t.elapsed, t.bytes
		m.finish(joined, outcome)
	}
}

func (m *machine) finish(t *turn, outcome timeline.Outcome) {
	t.outcome, t.input = outcome, nil
	m.news = true
}

// frame handles a frame of the worker. The caller appends the output that it returns; without
// output, the body is nil.
func (m *machine) frame(f ipc.Message) (output timeline.Event) {
	if m.cause != nil {
		return output // we are killing this worker, and ignore the rest
	}
	var wrong error // a violation of the protocol
	ready, first := f.(ipc.WorkerReady)
	switch {
	case m.end != nil:
		wrong = fmt.Errorf("%s after session_end", f.Type())
	case first:
		wrong = m.workerReady(ready)
	case m.ready == nil:
		wrong = fmt.Errorf("its first message is %s, not worker_ready", f.Type())
	default:
		output, wrong = m.act(f)
	}
	if wrong != nil {
		m.fail(wrong)
	}
	return output
}

// act handles a frame of a worker that is ready.
func (m *machine) act(f ipc.Message) (output timeline.Event, wrong error) {
	switch f := f.(type) {
	case ipc.Output:
		stream := timeline.Stdout
		if f.Stream == ipc.Stderr {
			stream = timeline.Stderr
		}
		return m.output(timeline.Text{Stream: stream, Data: f.Data, Kind: timeline.TextKind(f.Kind)}, f.Data), nil
	case ipc.Image:
		return m.output(timeline.Display{Data: map[string][]byte{f.MIME: f.Data}, ID: f.Source, Update: f.Update, Title: f.Title}, nil), nil
	case ipc.Display:
		return m.output(timeline.Display{Data: f.Data, Meta: f.Meta, ID: f.ID, Update: f.Update, Result: f.Kind == ipc.DisplayResult, Title: f.Title}, nil), nil
	case ipc.Clear:
		return m.output(timeline.OutputCleared{Wait: f.Wait}, nil), nil
	case ipc.SessionEnd:
		m.sessionEnd(f)
		return output, nil
	}
	if m.isStopped() {
		return output, nil // the stop ladder decides from here on
	}
	switch f := f.(type) {
	case ipc.Idle:
		return output, m.idle(f)
	case ipc.StdinWait:
		return output, m.stdinWait(f)
	case ipc.InputLine:
		m.lastLine = m.lastLine[:0]
		author := m.queue.author
		if f.Line > 0 && m.turn != nil {
			author = m.turn.author
			m.turn.took = append(m.turn.took[:min(len(m.turn.took), 1)], f)
		}
		m.record(timeline.InputLine{Prompt: f.Prompt, Text: f.Text, Secret: f.Secret, Author: author})
	case ipc.InterruptAck:
		if m.turn != nil && f.Turn == m.turn.id && f.Seq == m.turn.interrupts {
			m.stopRetries()
			m.askAgain()
		}
	case ipc.Sigint:
		m.userHandlesSigint = f.Owner != ipc.SigintOurs
		if m.userHandlesSigint && m.turn != nil {
			m.askAgain() // an interrupt does not end waits any more
		}
	case ipc.Progress:
		p := timeline.Progress{Progress: f.Progress, Message: f.Message}
		if f.Total != nil {
			p.Total = *f.Total
		}
		m.record(p)
	case ipc.QueryResult:
		m.effect(effect{do: doReply, message: f})
	default:
		return output, fmt.Errorf("%s is not for the supervisor", f.Type())
	}
	return output, nil
}

func (m *machine) workerReady(f ipc.WorkerReady) error {
	switch {
	case m.ready != nil:
		return errors.New("worker_ready twice")
	case f.Protocol.Name != ipc.ProtocolName || f.Protocol.Version != ipc.ProtocolVersion:
		return fmt.Errorf("it speaks %q version %d, not %q version %d",
			f.Protocol.Name, f.Protocol.Version, ipc.ProtocolName, ipc.ProtocolVersion)
	}
	m.ready = &f
	m.due = time.Time{}
	return nil
}

// idle ends the active turn, or the start-up.
func (m *machine) idle(f ipc.Idle) error {
	if m.turn == nil || m.turn.id != f.Turn {
		return fmt.Errorf("idle names turn %d, which is not active", f.Turn)
	}
	m.prompt, m.more = m.log.Redact(f.Prompt), m.log.Redact(f.Continuation)
	if f.Unrun > 0 {
		m.notice("%s", unrun(f))
	}
	m.finishTurn(timeline.Outcome(f.Outcome), f.Error, f.Prompt)
	m.move(phaseIdle)
	if t := m.held(); t != nil {
		m.early = nil
		m.begin(t)
	}
	return nil
}

// unrun says how many lines of the input did not run. The output may not show where the worker
// stopped.
func unrun(f ipc.Idle) string {
	lines, were, cause := "lines", "were", "error"
	if f.Unrun == 1 {
		lines, were = "line", "was"
	}
	if f.Outcome == ipc.OutcomeInterrupted {
		cause = "interrupt"
	}
	return fmt.Sprintf("%d %s after the %s %s not run", f.Unrun, lines, cause, were)
}

// sessionEnd handles the last frame. The process takes no more input and is about to end.
func (m *machine) sessionEnd(f ipc.SessionEnd) {
	m.end = &f
	m.stopRetries()
	if m.phase.state() != session.StateStopping {
		m.move(phaseLeaving)
	}
	// A user who may end the runtime waits for all that it does at its end, and can interrupt it.
	if m.turn == nil || !m.turn.mayExit {
		m.due = time.Now().Add(endGrace)
	}
}

// wake does what is due, if its time has come.
func (m *machine) wake() {
	if !m.over.IsZero() && !time.Now().Before(m.over) {
		m.overtime()
	}
	if m.due.IsZero() || time.Now().Before(m.due) {
		return
	}
	m.due = time.Time{}
	switch {
	case m.end != nil:
		m.fail(errors.New("it lives on after session_end"))
	case m.ready == nil:
		m.fail(fmt.Errorf("it was not ready after %s", m.startTimeout))
	default:
		m.effect(effect{do: doRepeat, message: m.retry})
		if m.tries++; m.tries < maxRetries {
			m.due = time.Now().Add(firstRetry << m.tries)
			return
		}
		m.stopRetries() // no acknowledgement will come, so the worker's questions count again
		m.askAgain()
	}
}

// fail kills the worker for a fault.
func (m *machine) fail(cause error) {
	if m.cause == nil {
		m.cause = cause
	}
	m.effect(effect{do: doKill})
}

// stop prepares the end of the worker, if there is one. It moves to phaseClosing when the
// session closes, or else to phaseStopping. It reports whether code runs that has to be
// interrupted.
func (m *machine) stop(to phase) (busy bool) {
	switch m.phase {
	case phasePreparing, phaseLaunching, phaseEnded:
		if to == phaseClosing {
			m.move(phaseClosed)
		}
		return false
	}
	busy = m.phase != phaseIdle && m.end == nil && (m.shown == nil || m.shown.Terminal || m.shown.NeedsUser())
	m.stopRetries()
	m.refuseHeld()
	m.move(to)
	return busy
}

// isStopped reports whether we are stopping the worker.
func (m *machine) isStopped() bool { return m.phase == phaseStopping || m.phase == phaseClosing }

// exited handles the death of the worker. It completes the report about it.
func (m *machine) exited(report timeline.WorkerExited) timeline.WorkerExited {
	report.NeverReady = m.turn != nil && m.turn.id == 0 && !m.isStopped()
	next := phaseEnded
	switch {
	case m.phase == phaseClosing:
		report.Reason, report.Clean, next = "closed", true, phaseClosed
	case m.phase == phaseStopping:
		report.Reason, report.Clean = "reset", true
	case m.cause != nil:
		report.Reason = "worker failed: " + m.cause.Error()
	case m.end != nil:
		report.Clean = report.Signal == "" && m.end.Reason != ipc.EndCrash
		report.Message = m.end.Message
	}
	m.asked = slices.DeleteFunc(m.asked, func(a ask) bool { return a.call > 0 }) // they have ended with it
	if m.turn != nil && m.turn.id > 0 && !report.Clean {
		report.LastLine = m.turn.lastLine
	}
	m.died = report
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	if end := m.record(report); !report.NeverReady {
		m.lost = []timeline.Event{end}
	}
	m.dropHeld(timeline.OutcomeEnded)
	m.fresh = false
	m.life, m.known, m.prompt, m.more, m.due = life{}, nil, "", "", time.Time{}
	m.move(next)
	return report
}

// interrupt interrupts a turn, or with number 0 whatever is active. It returns the turn whose
// end the caller should wait for, and the newest event before any effect. The turn is nil when
// the result is known already.
func (m *machine) interrupt(author string, number uint64) (t *turn, seen timeline.Seq, known session.InterruptResult, err error) {
	if held := m.held(); held != nil && !m.isClosed() && (number == 0 || number == held.id) {
		m.notice("turn %d was interrupted before it ran%s", held.id, by(author))
		m.dropHeld(timeline.OutcomeInterrupted)
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
		return nil, 0, session.InterruptNotRunning, session.ErrClosed
	case leaving:
		return t, m.interruptEnd(t, author), "", nil
	case over && (number == 0 || number > m.lastTurn):
		return nil, 0, session.InterruptNotRunning, nil
	case over || number != 0 && number != t.id:
		return nil, 0, session.InterruptStale, nil
	case m.ready == nil:
		// Now a signal would kill the interpreter in the middle of its start.
		return nil, 0, session.InterruptNotRunning, nil
	case m.phase == phaseSending:
		m.notRun(fmt.Sprintf("turn %d was interrupted before it ran%s", t.id, by(author)))
		return nil, 0, session.InterruptIdle, nil
	}
	return t, m.sendInterrupt(t, author), "", nil
}

// by returns the words that name an author in a notice.
func by(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

// sendInterrupt sends one interrupt. It returns the newest event before it.
func (m *machine) sendInterrupt(t *turn, author string) timeline.Seq {
	t.interrupts++
	level, now := 1, time.Now()
	if !t.struck.IsZero() && (now.Sub(t.struck) >= interruptWait || m.shown != nil && m.shown.ID > t.struckAt) {
		level = 2
	}
	seen := m.record(timeline.Interrupt{Level: level, Author: author}).Seq
	if t.struck.IsZero() || level > 1 {
		t.struck, t.struckAt = now, seen
	}
	m.dropInput()
	m.retry = ipc.Interrupt{Turn: t.id, Seq: t.interrupts, Level: uint8(level)}
	m.tries, m.due = 0, now.Add(firstRetry)
	m.effect(effect{do: doInterrupt, message: m.retry}) // before held calls are refused, so that the signal ends them
	if !m.userHandlesSigint || level > 1 {              // otherwise the user's handler decides whether a reader goes on
		t.unacked = true
		m.leave(now)
		for _, a := range m.asked {
			if a.Permission != nil {
				t.stopped = append(t.stopped, a.Permission.AccessDenied)
			}
		}
		m.dropWaits()
		if m.phase == phaseWaiting {
			m.resume()
		}
	}
	return seen
}

// interruptEnd interrupts a worker that has said that it ends: its finalizers run. The second time
// kills it.
func (m *machine) interruptEnd(t *turn, author string) timeline.Seq {
	t.interrupts++
	if m.endInterrupted {
		m.effect(effect{do: doKill})
		return m.record(timeline.Interrupt{Level: 2, Author: author}).Seq
	}
	m.endInterrupted = true
	m.effect(effect{do: doSignal})
	return m.record(timeline.Interrupt{Level: 1, Author: author}).Seq
}

// stopRetries ends the retries: the interrupt was acknowledged, or nobody needs it any more.
func (m *machine) stopRetries() {
	if m.retry.Seq > 0 {
		m.retry, m.due = ipc.Interrupt{}, time.Time{}
	}
}

// askAgain lets the readers that survived an interrupt ask again. It also looks for terminal
// readers.
func (m *machine) askAgain() {
	m.turn.unacked = false
	if len(m.asked) > 0 { // what asked meanwhile
		m.serve()
	}
	m.effect(effect{do: doLookLater})
}

// dropInput empties the input queue, and says so in the timeline.
func (m *machine) dropInput() {
	if n := m.queue.clear(); n > 0 {
		m.notice("%d bytes of input were not read and were dropped", n)
	}
}
