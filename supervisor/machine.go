package supervisor

import (
	"bytes"
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

	keysTaken bool // a program has taken the terminal's keys
	listenerState
	requests     []inputRequest // the open input requests, in order
	shownRequest *inputRequest  // the input request that clients see
	queue        inputQueue
	grantTable
	useRecord
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
	typed   terminalInput      // for doType
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
	doType             // give the input to the terminal's reader, or type the keys
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

// isClosed reports whether the session is closed or closing, or is about to be closed.
func (m *sessionMachine) isClosed() bool {
	return m.phase == phaseClosing || m.phase == phaseClosed || m.expired
}

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
	if m.isClosed() {
		return m.closedError()
	}
	switch m.phase {
	case phaseIdle, phaseEnded:
		return nil
	case phasePreparing, phaseLaunching, phaseStarting:
		if m.earlyTurn == nil {
			return nil
		}
	case phaseWaiting:
		return session.NewWaitingError(m.shownRequest.InputRequest)
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

// An inputRequest is an input request of clients together with the data that its answer needs.
type inputRequest struct {
	session.InputRequest
	workerWait uint64 // the worker's number for the request; 0 for a terminal reader
	wantsAll   bool   // the reader wants all input, not one line; a terminal reader gets it as one paste
	readerKey  string // key of the terminal reader
	callID     uint64 // the ID of the pending call or form; 0 for a request for input
}

// A grantTable holds the grants that users gave to a session or refused, and the denials of the
// turn. A new worker inherits the grants.
type grantTable struct {
	lastPermission    uint64          // ID of the last permission request
	grants            []session.Grant // with Always unset
	missingGrants     []session.Grant // grants that the worker was started without
	refusedGrants     []session.Grant
	reportedDenials   []timeline.AccessDenied // denials since the last turn started
	unreportedDenials int                     // number of denials beyond maxReportedDenials
	hiddenPaths       []string                // paths that the worker's sandbox hides
	unshownPaths      []string                // paths that it does not show but could
	namedHiddenPath   string                  // a hidden path that a message in the turn's output named
	namedUnshownPath  string                  // an unshown path, likewise
	privateDirs       privateDirs
	monitorReported   bool // the monitor has reported a denial, and will not report it again
}

// addGrant adds a grant and clears its missing mark.
func (t *grantTable) addGrant(g session.Grant) {
	t.missingGrants = withoutGrant(t.missingGrants, g)
	if !slices.Contains(t.grants, g) {
		t.grants = append(t.grants, g)
	}
}

// markMissing marks a grant that the worker lacks. The next start tries to give it again.
func (t *grantTable) markMissing(g session.Grant) {
	t.removeGrant(g)
	t.missingGrants = append(t.missingGrants, g)
}

// removeGrant removes a grant from both lists.
func (t *grantTable) removeGrant(g session.Grant) {
	t.grants, t.missingGrants = withoutGrant(t.grants, g), withoutGrant(t.missingGrants, g)
}

// updateTurnClock starts or stops the clock of the turn limit before the phase changes. The clock
// stops while the turn waits for input.
func (m *sessionMachine) updateTurnClock(to phase) {
	switch {
	case m.turnLimit == 0:
	case m.turn == nil || m.turn.id == 0:
		m.overtimeAt = time.Time{}
	case to == phaseRunning:
		m.overtimeAt = time.Now().Add(m.turn.timeLeft)
	case !m.overtimeAt.IsZero():
		m.turn.timeLeft, m.overtimeAt = time.Until(m.overtimeAt), time.Time{}
	}
}

// nextDeadline returns the next time at which handleTimer has something to do; zero means never.
func (m *sessionMachine) nextDeadline() time.Time {
	var next time.Time
	for _, due := range []time.Time{m.deadline, m.overtimeAt, m.idleDeadline()} {
		if next.IsZero() || !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	return next
}

// A turnMode says how the worker runs the input of a turn.
type turnMode struct {
	silent  bool // a tool submitted it
	mayExit bool // its code may end the worker
	dialect session.InputDialect
}

// A turn comprises an input and everything up to the worker's idle message. Callers know it by its
// number.
type turn struct {
	id          uint64 // 0 for a start-up, and for an input that answers a prompt of the start-up
	number      uint64 // the number that its caller knows
	input       []byte // nil once it is sent
	lastLine    string // of the input, for the report if the worker exits
	author      string
	traceParent string // the span in which it was submitted; see session.WithTraceParent
	turnMode
	beforeSeq     timeline.Seq     // everything up to it came before the turn
	startSeq      timeline.Seq     // the last event before a worker's start, whose notices belong to the first turn's reply
	lastWorkerEnd []timeline.Event // why the variables of earlier turns are gone, for the first turn's reply
	started       time.Time
	elapsed       time.Duration    // set when the turn ends
	outcome       timeline.Outcome // "" until the turn ends
	outputBytes   int64            // of output
	timeLeft      time.Duration    // until its limit, while the clock is stopped
	overtimeSteps int              // steps taken since it reached its limit
	questionCount int              // permission requests so far
	formCount     int              // form requests so far
	answeredLines []ipc.InputLine  // first and last input line that answered prompts and was not reported yet

	interrupts       uint64       // the Seq of the last interrupt
	interruptUnacked bool         // the worker has not seen that interrupt yet, so its input requests are void
	interruptedAt    time.Time    // time of the first interrupt since an answer, or of the last one with level 2; zero for none
	interruptSeq     timeline.Seq // the event of that interrupt

	interruptedCalls []timeline.AccessDenied // pending calls that an interrupt ended, each until the kernel restarts it
}

func withoutGrant(all []session.Grant, g session.Grant) []session.Grant {
	return slices.DeleteFunc(all, func(other session.Grant) bool { return other == g })
}

// maxKnownTurns bounds the turns that Wait can find by number.
const maxKnownTurns = 256
