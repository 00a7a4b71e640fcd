package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// interruptWait is how long an interrupt may take to end its turn. Then a call
	// of Interrupt returns, and the next interrupt is of level 2.
	interruptWait = time.Second

	// A worker can miss a signal in the moment before it blocks, so an interrupt
	// that is not acknowledged is repeated after 30, 60, 120, … ms, maxRetries
	// times. Retries carry the same number: they cannot interrupt twice.
	firstRetry = 30 * time.Millisecond
	maxRetries = 6

	// endGrace is how long a process may take to end after session_end: a
	// runtime has much memory to give back, perhaps.
	endGrace = 10 * time.Second

	// earlyInput is how long worker_ready may be on its way when a worker that must
	// not read the terminal before it seems to do so.
	earlyInput = 2 * time.Second

	// maxAsked bounds the readers of one turn that wait at the same time.
	maxAsked = 1024
)

// A machine knows where a session stands, and decides what comes next. Each of its
// methods is one event, or a look. It records what happened in the timeline, and
// leaves what has to be done as effects: it has no lock, no goroutine and no timer,
// and knows no process. Its caller holds the session's lock, and then performs the
// effects (Session.unlock).
type machine struct {
	log          *timeline.Log
	startTimeout time.Duration
	showSecrets  bool
	earlyInput   string // of the Spec

	phase      phase
	since      time.Time // when the state was reached
	generation uint64
	rung       string // of the stop ladder, which ended the last worker
	prompt     string
	life       // of the worker; zero when there is none

	lastTurn uint64
	turn     *turn   // active; also the start-up, as turn 0
	previous *turn   // the last one that was active
	early    *turn   // submitted before the session was ready: held, or an answer to the start-up
	recent   []*turn // the last ones, for Wait
	lastLine []byte  // of the active turn's output, unterminated; bounded

	asked []ask // waits that are not answered, in order
	shown *ask  // the wait that clients see
	queue inputQueue
	known map[string]bool // terminal readers that blocked before the turn began, by key
	fed   map[string]bool // terminal readers that were answered, by key

	retry   ipc.Interrupt // the interrupt that is repeated; Seq 0 when there is none
	tries   int           // how often it was
	due     time.Time     // when wake is to be called; zero for never
	effects []effect      // to be performed, in order
	news    bool          // something changed that a waiter may want
}

// A life is what one worker has said, and what became of it.
type life struct {
	ready             *ipc.WorkerReady // nil before it came
	userHandlesSigint bool
	cause             error           // what it did wrong; nil when nothing
	end               *ipc.SessionEnd // its last frame
}

// An effect is something that the worker does next, under the session's lock.
type effect struct {
	do      action
	message ipc.Message   // of send, interrupt and reply
	turn    *turn         // of await
	input   session.Input // of feed
}

type action uint8

const (
	doSend      action = iota // the message; if that fails, call fail
	doInterrupt               // send the message, then the signal
	doRepeat                  // the same again, to the worker alone
	doAwait                   // call cleared once no signal is on its way to the worker
	doKill
	doFeed      // give the input to the terminal's reader
	doLook      // for terminal readers, from now on
	doLookLater // for them, once an interrupt has had its effect
	doReply     // to a query
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
	m.news = m.news || m.phase == phaseLeaving // nobody waits to see how the worker ends any more
	m.phase = to
}

// isClosed reports whether the session ends for good, or has.
func (m *machine) isClosed() bool { return m.phase == phaseClosing || m.phase == phaseClosed }

// record appends a structural event. The timeline holds back only text and images
// when its disk is slow, so this never blocks.
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
		e.Turn = m.turn.id
	} else {
		e.Turn, e.Between = m.lastTurn, true
	}
	return e
}

// output returns the event of what the runtime put out; text is its bytes, if it is text.
// Appending it may have to wait for the disk, so the caller does that without the lock.
func (m *machine) output(body timeline.Body, text []byte) timeline.Event {
	m.reportLines()
	if m.turn != nil {
		m.turn.bytes += int64(len(text))
		m.lastLine = lastLine(m.lastLine, text)
	}
	return m.event(body)
}

// refusal returns why no input is taken now; nil when one is.
func (m *machine) refusal() error {
	switch m.phase {
	case phaseIdle, phaseEnded:
		return nil
	case phasePreparing, phaseLaunching, phaseStarting:
		if m.early == nil {
			return nil
		}
	case phaseWaiting:
		return session.Waiting(m.shown.Wait)
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
	return session.Busy(m.phase.state(), turn, time.Since(begun))
}

// submit takes an input and returns its number. Without a worker, the caller has to start
// one. known are the terminal readers of before.
func (m *machine) submit(t *turn, known map[string]bool) (number uint64, err error) {
	if err := m.refusal(); err != nil {
		return 0, err
	}
	m.lastTurn++
	t.id, t.number = m.lastTurn, m.lastTurn
	t.before = m.log.Last()
	if len(m.recent) == maxKnownTurns {
		m.recent = append(m.recent[:0], m.recent[1:]...)
	}
	m.recent = append(m.recent, t)
	if m.phase == phaseIdle {
		m.known = known
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

// withdraw takes back a held input, and reports whether it never ran.
func (m *machine) withdraw(t *turn) bool {
	if m.held() == t {
		m.dropHeld(timeline.OutcomeEnded)
		m.lastTurn-- // no caller has its number
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

// start begins a generation: a worker will be launched, once it is prepared.
func (m *machine) start(worker string, prepare bool) {
	if prepare {
		m.move(phasePreparing)
	} else {
		m.move(phaseLaunching)
	}
	m.generation++
	m.rung = ""
	m.turn = &turn{before: m.log.Last(), started: time.Now()}
	m.record(timeline.GenerationStarted{Worker: worker})
}

// prepared takes in that the worker can be launched.
func (m *machine) prepared(done int64, notices []string) {
	m.record(timeline.Preparation{Done: done, Total: done})
	for _, n := range notices {
		m.notice("%s", n)
	}
	if t := m.held(); t != nil {
		t.before = m.log.Last() // the preparation is no part of its reply
	}
	m.move(phaseLaunching)
}

// launched takes in that the worker's process is there.
func (m *machine) launched() {
	m.due = time.Now().Add(m.startTimeout)
	m.move(phaseStarting)
}

// notLaunched takes in that there will be no process in this generation.
func (m *machine) notLaunched(report timeline.GenerationEnded) {
	m.record(report)
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	m.dropHeld(timeline.OutcomeEnded)
	m.move(phaseEnded)
}

// begin starts a turn on the idle worker.
func (m *machine) begin(t *turn) {
	t.started = time.Now()
	m.turn = t
	m.lastLine = m.lastLine[:0]
	m.record(timeline.TurnStarted{Input: clip(t.input, timeline.MaxInputBytes), Bytes: len(t.input), Author: t.author})
	m.move(phaseSending)
	m.effect(effect{do: doAwait, turn: t})
}

// cleared takes in that no signal of the turn before can reach t any more, or that
// this took too long.
func (m *machine) cleared(t *turn, inTime bool) {
	switch {
	case m.phase != phaseSending || m.turn != t:
	case inTime:
		m.move(phaseRunning)
		m.effect(effect{do: doSend, message: ipc.TurnStart{Turn: t.id, Input: t.input}})
		m.effect(effect{do: doLook})
		t.input = nil
	default:
		m.notRun(fmt.Sprintf("turn %d was not run: for %s, the interrupt of the turn before could not be sent, and must not reach this one", t.id, sendLimit))
	}
}

// notRun ends a turn that was not sent.
func (m *machine) notRun(why string) {
	m.notice("%s", why)
	m.finishTurn(timeline.OutcomeInterrupted, nil, m.prompt)
	m.move(phaseIdle)
}

// finishTurn ends the active turn and whatever was tied to it.
func (m *machine) finishTurn(outcome timeline.Outcome, e *ipc.RuntimeError, prompt string) {
	t := m.turn
	if t == nil {
		return
	}
	m.stopRetries()
	m.dropWaits()
	m.dropInput()
	t.elapsed = time.Since(t.started)
	if t.id > 0 {
		ended := timeline.TurnEnded{Outcome: outcome, Prompt: prompt, Elapsed: t.elapsed}
		if e != nil {
			ended.Name, ended.Message = e.Name, e.Message
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

// frame handles a frame of the worker. It returns the worker's output for the caller to append;
// its body is nil when there is none.
func (m *machine) frame(f ipc.Message) (output timeline.Event) {
	if m.cause != nil {
		return output // it is being ended; nothing that it says counts any more
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

// act acts on a frame of a worker that is ready.
func (m *machine) act(f ipc.Message) (output timeline.Event, wrong error) {
	switch f := f.(type) {
	case ipc.Output:
		stream := timeline.Stdout
		if f.Stream == ipc.Stderr {
			stream = timeline.Stderr
		}
		return m.output(timeline.Text{Stream: stream, Data: f.Data}, f.Data), nil
	case ipc.Image:
		return m.output(timeline.Image{MIME: f.MIME, Data: f.Data, Source: f.Source, Update: f.Update, Title: f.Title}, nil), nil
	case ipc.SessionEnd:
		m.sessionEnd(f)
		return output, nil
	}
	if m.isStopped() {
		return output, nil // the ladder decides now
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
			m.askAgain() // no interrupt ends a wait any more
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
	m.prompt = m.log.Hidden(f.Prompt)
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

// unrun says how much of a turn's input was left alone: its output may not show
// where a worker stopped.
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

// sessionEnd takes in the last frame: the process is about to end, and takes no more
// input.
func (m *machine) sessionEnd(f ipc.SessionEnd) {
	m.end = &f
	m.stopRetries()
	if m.phase.state() != session.StateStopping {
		m.move(phaseLeaving)
	}
	m.due = time.Now().Add(endGrace)
}

// wake takes in that it is time for what is due.
func (m *machine) wake() {
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
		m.stopRetries() // it will not be acknowledged: what the worker asks from now on counts
		m.askAgain()
	}
}

// fail ends the worker because of what it did.
func (m *machine) fail(cause error) {
	if m.cause == nil {
		m.cause = cause
	}
	m.effect(effect{do: doKill})
}

// stop takes in that we end the worker, if there is one: to is phaseClosing to close the
// session, or phaseStopping. It reports whether code runs that has to be interrupted.
func (m *machine) stop(to phase) (busy bool) {
	switch m.phase {
	case phasePreparing, phaseLaunching, phaseEnded:
		if to == phaseClosing {
			m.move(phaseClosed)
		}
		return false
	}
	busy = m.phase != phaseIdle && m.end == nil && (m.shown == nil || m.shown.Terminal)
	m.stopRetries()
	m.move(to)
	return busy
}

// isStopped reports whether we end the worker.
func (m *machine) isStopped() bool { return m.phase == phaseStopping || m.phase == phaseClosing }

// exited takes in that the worker is gone, and completes the report of it.
func (m *machine) exited(report timeline.GenerationEnded) timeline.GenerationEnded {
	report.Unready = m.turn != nil && m.turn.id == 0 && !m.isStopped()
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
	if m.turn != nil && m.turn.id > 0 && !report.Clean {
		report.LastLine = m.turn.lastLine
	}
	m.finishTurn(timeline.OutcomeEnded, nil, "")
	m.record(report)
	m.dropHeld(timeline.OutcomeEnded)
	m.life, m.known, m.prompt, m.due = life{}, nil, "", time.Time{}
	m.move(next)
	return report
}

// interrupt interrupts a turn, or whatever is active for number 0. It returns the
// turn whose end is to be waited for, with the newest event before any effect; nil
// when the result is known.
func (m *machine) interrupt(author string, number uint64) (t *turn, seen timeline.Seq, known session.InterruptResult, err error) {
	if held := m.held(); held != nil && !m.isClosed() && (number == 0 || number == held.id) {
		m.notice("turn %d was interrupted before it ran%s", held.id, by(author))
		m.dropHeld(timeline.OutcomeInterrupted)
		// A caller that names no turn means the start-up, too: that may never end.
		if number != 0 || m.ready == nil {
			return nil, 0, session.InterruptIdle, nil
		}
	}
	t = m.turn
	over := t == nil || m.phase == phasePreparing || m.phase == phaseLaunching || m.phase.state() == session.StateStopping
	switch {
	case m.isClosed():
		return nil, 0, session.InterruptNotRunning, session.ErrClosed
	case over && (number == 0 || number > m.lastTurn):
		return nil, 0, session.InterruptNotRunning, nil
	case over || number != 0 && number != t.id:
		return nil, 0, session.InterruptStale, nil
	case m.ready == nil:
		// A signal now would end the interpreter in the middle of its start.
		return nil, 0, session.InterruptNotRunning, nil
	case m.phase == phaseSending:
		m.notRun(fmt.Sprintf("turn %d was interrupted before it ran%s", t.id, by(author)))
		return nil, 0, session.InterruptIdle, nil
	}
	return t, m.sendInterrupt(t, author), "", nil
}

// by returns how a notice names an author.
func by(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

// sendInterrupt sends one interrupt and returns the newest event before its effects.
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
	if !m.userHandlesSigint || level > 1 { // else its handler decides whether a reader goes on
		t.unacked = true
		m.dropWaits()
		if m.phase == phaseWaiting {
			m.resume()
		}
	}
	m.retry = ipc.Interrupt{Turn: t.id, Seq: t.interrupts, Level: uint8(level)}
	m.tries, m.due = 0, now.Add(firstRetry)
	m.effect(effect{do: doInterrupt, message: m.retry})
	return seen
}

// stopRetries ends the retries of an interrupt that was acknowledged or is no longer
// wanted.
func (m *machine) stopRetries() {
	if m.retry.Seq > 0 {
		m.retry, m.due = ipc.Interrupt{}, time.Time{}
	}
}

// askAgain lets readers that outlive an interrupt ask again, and looks for terminal
// readers again.
func (m *machine) askAgain() {
	m.turn.unacked = false
	m.effect(effect{do: doLookLater})
}

// dropInput empties the queue, visibly.
func (m *machine) dropInput() {
	if n := m.queue.clear(); n > 0 {
		m.notice("%d bytes of input were not read and were dropped", n)
	}
}
