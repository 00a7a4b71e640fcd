package kernel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxKnownTurns bounds the turns that are remembered, for peers that are behind. The outputs of an
// older one come with a parent of our making.
const maxKnownTurns = 4096

// reconnectDelay is the pause before events are read again that could not be read.
const reconnectDelay = 200 * time.Millisecond

// currentSession holds the session of now, and replaces one that has ended when it is needed.
type currentSession struct {
	kernel   *kernel
	openLock chan struct{} // holds one: who opens
	opened   int           // changed by who opens

	mu             sync.Mutex
	session        *attachedSession // nil before the first
	changed        chan struct{}    // closed when now is another one
	used           bool             // code has run whose variables would be missed
	unreportedLoss error            // how they were lost, which no cell has been told; nil if they were not
}

func (s *currentSession) initKernel(k *kernel) {
	s.kernel, s.openLock, s.changed = k, make(chan struct{}, 1), make(chan struct{})
}

// latestSession returns the session of now, which may have ended, and what is closed when there is
// another one.
func (s *currentSession) latestSession() (*attachedSession, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session, s.changed
}

// markUsed notes that code runs whose variables are there from now on.
func (s *currentSession) markUsed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
}

// recordLoss notes how the variables were lost. The next cell is told, unless this one is.
func (s *currentSession) recordLoss(how error, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used && !told {
		s.unreportedLoss = how
	}
	s.used = false
}

// takeLoss returns how the variables were lost, for the cell that tells it.
func (s *currentSession) takeLoss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := s.unreportedLoss
	s.unreportedLoss = nil
	return how
}

// ensureSession returns a session that lives, and opens one if need be.
func (s *currentSession) ensureSession(ctx context.Context) (*attachedSession, error) {
	select {
	case s.openLock <- struct{}{}:
		defer func() { <-s.openLock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now, _ := s.latestSession(); now != nil && now.isAlive() {
		return now, nil
	}
	there, info, err := s.kernel.options.Open(ctx)
	if err != nil {
		return nil, err
	}
	s.opened++
	l := &attachedSession{
		kernel: s.kernel, number: s.opened, session: there, opened: info.OpenedAt, start: info.LastSeq, seenUntil: info.LastSeq,
		generation: info.Generation, count: countInputs(ctx, there, info),
		turns: make(map[uint64]*sessionTurn), submitted: make(map[uint64]*queuedRequest), changed: make(chan struct{}),
	}
	s.mu.Lock()
	s.session = l
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.kernel.tasks.Go(l.followEvents)
	return l, nil
}

// countInputs returns how many inputs the worker of now has had, which a new kernel goes on to count.
func countInputs(ctx context.Context, there session.Session, info session.Info) (count uint64) {
	if info.Turn == 0 {
		return 0
	}
	outline, err := there.TurnSummaries(ctx, session.TurnSummariesQuery{Backward: true, Limit: session.MaxSummaries})
	if err != nil {
		return info.Turn
	}
	for _, t := range outline.Turns {
		if t.Generation == info.Generation && t.Turn > 0 && !t.Silent {
			count++
		}
	}
	return count
}

// An attachedSession is one session from the moment when it was opened until it ends.
type attachedSession struct {
	kernel  *kernel
	number  int // of the life: 1, 2, …
	session session.Session
	opened  time.Time
	start   timeline.Seq

	submitMu sync.Mutex // held while a turn of ours is being started, so that its number is known

	mu         sync.Mutex
	seenUntil  timeline.Seq // all up to it are known
	generation uint64       // of the worker that count is of: each has its own variables, and its own numbers
	count      uint64       // of the last turn that is part of the history
	turns      map[uint64]*sessionTurn
	submitted  map[uint64]*queuedRequest // turns of ours whose start was not seen; nil for an expression
	latest     uint64
	endErr     error         // why it has ended; nil while it lives
	changed    chan struct{} // closed at each change
}

// A sessionTurn is one of the session's, as far as it is known.
type sessionTurn struct {
	number       uint64
	author       string
	ownRequest   *queuedRequest // nil: not a request of ours
	parent       wire.Header    // of its outputs
	count        uint64         // the number that a notebook shows
	silent       bool
	notInHistory bool // it is no part of the history, and has no number of its own
	code         string

	inputRequest   timeline.InputRequested // what it asks now
	inputRequestID timeline.Seq            // 0: nothing
	traceback      []byte
	workerExit     *timeline.WorkerExited
	ended          *timeline.TurnEnded
}

func (l *attachedSession) isAlive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endErr == nil
}

// submitTurn starts a turn for a request.
func (l *attachedSession) submitTurn(ctx context.Context, j *queuedRequest, code string, silent bool) (uint64, error) {
	l.submitMu.Lock()
	defer l.submitMu.Unlock()
	start := l.session.Submit
	if silent {
		start = l.session.SubmitSilent
	}
	n, err := start(ctx, code)
	if err == nil {
		l.mu.Lock()
		l.submitted[n] = j
		l.mu.Unlock()
	}
	return n, err
}

// followEvents reads the timeline for all, until the session ends or cannot be found any more.
func (l *attachedSession) followEvents() {
	for l.kernel.ctx.Err() == nil {
		var why error
		for e, err := range l.session.Events(l.kernel.ctx, l.eventCursor()) {
			if err != nil {
				why = err
				break
			}
			l.addEvent(e)
			if _, ok := e.Body.(timeline.Gap); ok {
				l.recoverOutcome()
			}
		}
		if l.kernel.ctx.Err() == nil && !l.isStillOpen(why) {
			l.markEnded(why)
			return
		}
		select {
		case <-time.After(reconnectDelay):
		case <-l.kernel.ctx.Done():
		}
	}
}

// recoverOutcome asks for the outcome of a turn whose end may be among dropped events.
func (l *attachedSession) recoverOutcome() {
	l.mu.Lock()
	for n, j := range l.submitted {
		if j != nil { // Its start may be among them, too.
			l.turns[n], l.latest = l.assignCountLocked(sessionTurn{number: n, ownRequest: j, parent: j.Header, code: j.execute.Code}), max(l.latest, n)
			delete(l.submitted, n)
		}
	}
	l.mu.Unlock()
	t, ok := l.activeTurn()
	if !ok {
		return
	}
	reply, err := l.session.Wait(l.kernel.ctx, t.number, &session.WaitOptions{Poll: true, After: l.eventCursor()})
	if err != nil || reply.Outcome == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns[t.number].ended = &timeline.TurnEnded{Outcome: reply.Outcome}
	l.signalChangedLocked()
}

// isStillOpen reports whether the session is still there after its events have ended.
func (l *attachedSession) isStillOpen(why error) bool {
	if session.KindOf(why) == session.KindClosed {
		return false
	}
	info, err := l.session.Info(l.kernel.ctx)
	return err == nil && info.OpenedAt.Equal(l.opened)
}

func (l *attachedSession) eventCursor() timeline.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seenUntil
}

func (l *attachedSession) markEnded(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if why == nil {
		why = session.ErrClosed
	}
	l.endErr = fmt.Errorf("the session has ended, and its variables are gone: %w", why)
	t := l.turns[l.latest]
	l.kernel.sessions.recordLoss(l.endErr, t != nil && t.ownRequest != nil && !t.isOver())
	l.signalChangedLocked()
}

func (l *attachedSession) signalChangedLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// addEvent takes one event in.
func (l *attachedSession) addEvent(e timeline.Event) {
	started, isStart := e.Body.(timeline.TurnStarted)
	if isStart && started.Author == l.session.Author() {
		// It may be the turn that is being submitted: wait until its number is known.
		l.submitMu.Lock()
		defer l.submitMu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seenUntil = max(l.seenUntil, cursorAfter(e))
	if isStart {
		l.addTurnLocked(e, started)
	} else if t := l.turns[e.Turn]; t != nil && (!e.BetweenTurns || t.awaitsExit()) {
		t.addEvent(e)
		l.recordLossLocked(e, t.ownRequest != nil)
	} else {
		l.recordLossLocked(e, false)
		return // Nobody waits for it.
	}
	l.signalChangedLocked()
}

func (l *attachedSession) addTurnLocked(e timeline.Event, started timeline.TurnStarted) {
	if l.turns[e.Turn] != nil {
		return // It was taken for lost.
	}
	j := l.submitted[e.Turn]
	delete(l.submitted, e.Turn)
	if e.Generation != l.generation {
		l.generation, l.count = e.Generation, 0
	}
	t := l.assignCountLocked(sessionTurn{number: e.Turn, author: started.Author, ownRequest: j, silent: e.Silent, code: string(started.Input)})
	if !t.silent {
		l.kernel.sessions.markUsed()
	}
	if j != nil {
		t.parent = j.Header
	} else {
		t.parent = l.parentHeader(e.Turn, started.Author)
	}
	l.turns[e.Turn], l.latest = t, e.Turn
	delete(l.turns, e.Turn-maxKnownTurns)
}

// recordLossLocked notes the end of a worker, which a cell tells that it ended.
func (l *attachedSession) recordLossLocked(e timeline.Event, told bool) {
	if died, ok := e.Body.(timeline.WorkerExited); ok && !died.NeverReady {
		l.kernel.sessions.recordLoss(&stateLossError{died}, told)
	}
}

// A stateLossError tells that a worker has ended.
type stateLossError struct{ died timeline.WorkerExited }

func (e *stateLossError) Error() string {
	return "the worker has ended, and its variables are gone: " + e.died.FullReason()
}

// isReset reports whether somebody has asked for the loss.
func (e *stateLossError) isReset() bool { return e.died.Clean && e.died.Reason == "reset" }

// assignCountLocked gives a turn its number. As in IPython, it gets one if it is to be found in the history.
func (l *attachedSession) assignCountLocked(t sessionTurn) *sessionTurn {
	t.notInHistory = t.silent || t.number == 0 || strings.TrimSpace(t.code) == "" || t.ownRequest != nil && !t.ownRequest.execute.StoreHistory
	if !t.notInHistory {
		l.count++
	}
	t.count = l.count
	return &t
}

// isHidden reports whether a turn is known to be no part of the history.
func (l *attachedSession) isHidden(n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[n]
	return t != nil && t.notInHistory
}

// parentHeader makes the header of a request that nobody sent, for the outputs of a turn that came
// another way.
func (l *attachedSession) parentHeader(n uint64, author string) wire.Header {
	h := wire.NewHeader(author, author, "execute_request")
	h.ID = fmt.Sprintf("turn-%d", n)
	return h
}

// awaitsExit reports whether the worker ended with the turn, and its report is not there yet.
func (t *sessionTurn) awaitsExit() bool {
	return t.workerExit == nil && t.ended != nil && t.ended.Outcome == timeline.OutcomeEnded
}

// isOver reports whether all is known of the turn.
func (t *sessionTurn) isOver() bool { return t.ended != nil && !t.awaitsExit() }

func (t *sessionTurn) addEvent(e timeline.Event) {
	switch b := e.Body.(type) {
	case timeline.InputRequested:
		t.inputRequest, t.inputRequestID = b, e.Seq
	case timeline.InputRequestEnded:
		if b.Request == t.inputRequestID {
			t.inputRequestID = 0
		}
	case timeline.Text:
		if b.Kind == timeline.TextTraceback && len(t.traceback) < maxTracebackBytes {
			t.traceback = append(t.traceback, b.Data...)
		}
	case timeline.WorkerExited:
		t.workerExit = &b
	case timeline.TurnEnded:
		t.ended, t.inputRequestID = &b, 0
	}
}

// awaitTurn returns a turn that is known to have started, and waits until it was seen. It returns nil
// if the life ends before, and for one that is forgotten.
func (l *attachedSession) awaitTurn(ctx context.Context, n uint64, seq timeline.Seq) *sessionTurn {
	for {
		l.mu.Lock()
		t, known, changed := l.turns[n], l.seenUntil >= seq || l.endErr != nil, l.changed
		l.mu.Unlock()
		if t != nil || known {
			return t
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// turnState is a copy of what is known of a turn now; ok is false when it has not been seen.
func (l *attachedSession) turnState(n uint64) (t sessionTurn, ok bool, changed <-chan struct{}, over error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.turns[n]; at != nil {
		t, ok = *at, true
	}
	return t, ok, l.changed, l.endErr
}

// activeTurn returns the turn that runs now, as far as it was seen.
func (l *attachedSession) activeTurn() (t sessionTurn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.turns[l.latest]; at != nil && !at.isOver() {
		return *at, true
	}
	return sessionTurn{}, false
}
