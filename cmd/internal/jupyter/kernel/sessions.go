package kernel

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/comms"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxKnownTurns bounds the turns that are remembered for peers that lag behind. Outputs of older
// turns get the header of a made-up request as their parent.
const maxKnownTurns = 4096

// reconnectDelay is the pause before another attempt to read events after an error.
const reconnectDelay = 200 * time.Millisecond

// A currentSession holds the session that requests use, and replaces it when a request finds that it
// has ended.
type currentSession struct {
	kernel   *kernel
	openLock chan struct{} // holds one element while a session is being opened
	opened   int           // sessions opened so far; guarded by openLock

	mu             sync.Mutex
	session        *attachedSession // nil before the first
	changed        chan struct{}    // closed when session is replaced
	used           bool             // code has run that may have set variables
	unreportedLoss error            // how the variables were lost, if no cell has reported it yet; otherwise nil
}

func (s *currentSession) initKernel(k *kernel) {
	s.kernel, s.openLock, s.changed = k, make(chan struct{}, 1), make(chan struct{})
}

// latestSession returns the session in use, which may have ended, and a channel that is closed when it
// is replaced.
func (s *currentSession) latestSession() (*attachedSession, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session, s.changed
}

// markUsed records that code runs that may set variables.
func (s *currentSession) markUsed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
}

// recordLoss records how the variables were lost. The next cell reports it, unless reported is set.
func (s *currentSession) recordLoss(how error, reported bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used && !reported {
		s.unreportedLoss = how
	}
	s.used = false
}

// takeLoss returns how the variables were lost, for the cell that reports it, or nil.
func (s *currentSession) takeLoss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := s.unreportedLoss
	s.unreportedLoss = nil
	return how
}

// ensureSession returns an open session, and opens one if necessary.
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
	opened, info, err := s.kernel.options.Open(ctx)
	if err != nil {
		return nil, err
	}
	s.opened++
	l := &attachedSession{
		kernel: s.kernel, number: s.opened, session: opened.InDialect(session.DialectNotebook), opened: info.OpenedAt, start: info.LastSeq, seenUntil: info.LastSeq,
		generation: info.Generation, count: countInputs(ctx, opened, info),
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

// countInputs returns how many inputs the current worker has had. A new kernel continues that count.
func countInputs(ctx context.Context, s session.Session, info session.Info) (count uint64) {
	if info.Turn == 0 {
		return 0
	}
	summaries, err := s.TurnSummaries(ctx, session.TurnSummariesQuery{Backward: true, Limit: session.MaxSummaries})
	if err != nil {
		return info.Turn
	}
	for _, t := range summaries.Turns {
		if t.Generation == info.Generation && t.Turn > 0 && !t.Silent {
			count++
		}
	}
	return count
}

// An attachedSession tracks a session from when this kernel opened it until it ends.
type attachedSession struct {
	kernel  *kernel
	number  int // counts the sessions of this kernel: 1, 2, …
	session session.Session
	opened  time.Time
	start   timeline.Seq

	submitMu sync.Mutex // held while this kernel starts a turn, until the number of the turn is known

	mu         sync.Mutex
	seenUntil  timeline.Seq // all events up to this one were handled
	generation uint64       // of the worker to which count belongs: each has its own variables and its own count
	count      uint64       // execution count of the last turn in the history
	turns      map[uint64]*sessionTurn
	submitted  map[uint64]*queuedRequest // turns of this kernel whose start was not seen yet; the value for an expression is nil
	latest     uint64
	endErr     error         // why the session has ended; nil before
	changed    chan struct{} // closed at each change
}

// A sessionTurn holds what is known about a turn of the session.
type sessionTurn struct {
	number       uint64
	author       string
	ownRequest   *queuedRequest // nil for a turn of another client
	parent       wire.Header    // of its outputs
	count        uint64         // the execution count that a notebook shows
	silent       bool
	notInHistory bool // the turn is not in the history, and does not increase the count
	code         string

	inputRequest   timeline.InputRequested // the open input request
	inputRequestID timeline.Seq            // 0 without an input request
	traceback      []byte
	workerExit     *timeline.WorkerExited
	ended          *timeline.TurnEnded
}

func (s *attachedSession) isAlive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr == nil
}

// submitTurn starts a turn for a request.
func (s *attachedSession) submitTurn(ctx context.Context, j *queuedRequest, code string, silent bool) (uint64, error) {
	s.submitMu.Lock()
	defer s.submitMu.Unlock()
	start := s.session.Submit
	if silent {
		start = s.session.SubmitSilent
	}
	n, err := start(ctx, code)
	if err == nil {
		s.mu.Lock()
		s.submitted[n] = j
		s.mu.Unlock()
	}
	return n, err
}

// followEvents reads the timeline for all peers, until the session ends or cannot be found any more.
func (s *attachedSession) followEvents() {
	for s.kernel.ctx.Err() == nil {
		var why error
		for e, err := range s.session.Events(s.kernel.ctx, s.eventCursor()) {
			if err != nil {
				why = err
				break
			}
			s.addEvent(e)
			if _, ok := e.Body.(timeline.Gap); ok {
				s.recoverOutcome()
			}
		}
		if s.kernel.ctx.Err() == nil && !s.isStillOpen(why) {
			s.markEnded(why)
			return
		}
		select {
		case <-time.After(reconnectDelay):
		case <-s.kernel.ctx.Done():
		}
	}
}

// recoverOutcome queries the outcome of a turn whose end may be among dropped events.
func (s *attachedSession) recoverOutcome() {
	s.mu.Lock()
	for n, j := range s.submitted {
		if j != nil { // the start of the turn may be among the dropped events, too
			s.turns[n], s.latest = s.assignCountLocked(sessionTurn{number: n, ownRequest: j, parent: j.Header, code: j.execute.Code}), max(s.latest, n)
			delete(s.submitted, n)
		}
	}
	s.mu.Unlock()
	t, ok := s.activeTurn()
	if !ok {
		return
	}
	reply, err := s.session.Wait(s.kernel.ctx, t.number, &session.WaitOptions{Poll: true, After: s.eventCursor()})
	if err != nil || reply.Outcome == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[t.number].ended = &timeline.TurnEnded{Outcome: reply.Outcome}
	s.signalChangedLocked()
}

// isStillOpen reports whether the session still exists after its events have ended.
func (s *attachedSession) isStillOpen(why error) bool {
	if session.KindOf(why) == session.KindClosed {
		return false
	}
	info, err := s.session.Info(s.kernel.ctx)
	return err == nil && info.OpenedAt.Equal(s.opened)
}

func (s *attachedSession) eventCursor() timeline.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seenUntil
}

func (s *attachedSession) markEnded(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == nil {
		why = session.ErrClosed
	}
	s.endErr = fmt.Errorf("the session has ended, and its variables are gone: %w", why)
	t := s.turns[s.latest]
	s.kernel.sessions.recordLoss(s.endErr, t != nil && t.ownRequest != nil && !t.isOver())
	s.signalChangedLocked()
}

func (s *attachedSession) signalChangedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// addEvent updates the state by one event.
func (s *attachedSession) addEvent(e timeline.Event) {
	started, isStart := e.Body.(timeline.TurnStarted)
	if isStart && started.Author == s.session.Author() {
		// It may be the turn that is being submitted: wait until its number is known.
		s.submitMu.Lock()
		defer s.submitMu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seenUntil = max(s.seenUntil, cursorAfter(e))
	if isStart {
		s.addTurnLocked(e, started)
	} else if t := s.turns[e.Turn]; t != nil && (!e.BetweenTurns || t.awaitsExit()) {
		t.addEvent(e)
		s.recordLossLocked(e, t.ownRequest != nil)
	} else {
		s.recordLossLocked(e, false)
		return // no request waits for it
	}
	s.signalChangedLocked()
}

func (s *attachedSession) addTurnLocked(e timeline.Event, started timeline.TurnStarted) {
	if s.turns[e.Turn] != nil {
		return // recoverOutcome has added it already
	}
	j := s.submitted[e.Turn]
	delete(s.submitted, e.Turn)
	if e.Generation != s.generation {
		s.generation, s.count = e.Generation, 0
	}
	t := s.assignCountLocked(sessionTurn{number: e.Turn, author: started.Author, ownRequest: j, silent: e.Silent, code: string(started.Input)})
	if !t.silent {
		s.kernel.sessions.markUsed()
	}
	if j != nil {
		t.parent = j.Header
	} else {
		t.parent = s.parentHeader(e.Turn, started.Author)
	}
	s.turns[e.Turn], s.latest = t, e.Turn
	delete(s.turns, e.Turn-maxKnownTurns)
}

// recordLossLocked records the end of a worker. reported says that the cell that it ended reports it.
func (s *attachedSession) recordLossLocked(e timeline.Event, reported bool) {
	if died, ok := e.Body.(timeline.WorkerExited); ok && !died.NeverReady {
		s.kernel.sessions.recordLoss(&stateLossError{died}, reported)
	}
}

// A stateLossError reports that the variables are lost because a worker has ended.
type stateLossError struct{ died timeline.WorkerExited }

func (e *stateLossError) Error() string {
	return "the worker has ended, and its variables are gone: " + e.died.FullReason()
}

// isReset reports whether a reset caused the loss on request.
func (e *stateLossError) isReset() bool { return e.died.Clean && e.died.Reason == "reset" }

// assignCountLocked gives a turn its execution count. As in IPython, only a turn in the history increases it.
func (s *attachedSession) assignCountLocked(t sessionTurn) *sessionTurn {
	t.notInHistory = t.silent || t.number == 0 || strings.TrimSpace(t.code) == "" || t.ownRequest != nil && !t.ownRequest.execute.StoreHistory
	if !t.notInHistory {
		s.count++
	}
	t.count = s.count
	return &t
}

// isHidden reports whether a turn is known not to be in the history.
func (s *attachedSession) isHidden(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turns[n]
	return t != nil && t.notInHistory
}

// parentHeader makes up the header of a request, for the outputs of a turn that no request of this
// kernel started.
func (s *attachedSession) parentHeader(n uint64, author string) wire.Header {
	h := wire.NewHeader(author, author, "execute_request")
	h.ID = fmt.Sprintf("turn-%d", n)
	return h
}

// awaitsExit reports whether the worker ended with the turn, and its WorkerExited event is still missing.
func (t *sessionTurn) awaitsExit() bool {
	return t.workerExit == nil && t.ended != nil && t.ended.Outcome == timeline.OutcomeEnded
}

// isOver reports whether the turn has ended and no event of it is missing.
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

// awaitTurn returns a turn that has started, and waits until its start was seen. It returns nil if the
// session ends before, or if the turn is no longer remembered.
func (s *attachedSession) awaitTurn(ctx context.Context, n uint64, seq timeline.Seq) *sessionTurn {
	for {
		s.mu.Lock()
		t, known, changed := s.turns[n], s.seenUntil >= seq || s.endErr != nil, s.changed
		s.mu.Unlock()
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

// turnState returns a copy of what is known about a turn; ok is false if it has not been seen.
func (s *attachedSession) turnState(n uint64) (t sessionTurn, ok bool, changed <-chan struct{}, over error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.turns[n]; at != nil {
		t, ok = *at, true
	}
	return t, ok, s.changed, s.endErr
}

// activeTurn returns the turn that runs now, if its start was seen.
func (s *attachedSession) activeTurn() (t sessionTurn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.turns[s.latest]; at != nil && !at.isOver() {
		return *at, true
	}
	return sessionTurn{}, false
}

// maxBlobBytes bounds the omitted data that is fetched for a display: a message has at most 64 MiB, and
// base64 adds a third.
const maxBlobBytes = 40 << 20

// completeDisplay fetches the omitted data of a display, as far as a message has room for it.
func (s *attachedSession) completeDisplay(ctx context.Context, d timeline.Display) timeline.Display {
	room := int64(maxBlobBytes)
	omitted := make(map[string]timeline.Blob)
	data := maps.Clone(d.Data)
	for mime, b := range d.Omitted {
		whole, err := s.fetchBlob(ctx, b, room)
		if err != nil {
			omitted[mime] = b
			continue
		}
		room -= b.Bytes
		if data == nil {
			data = make(map[string][]byte)
		}
		data[mime] = whole
	}
	d.Data, d.Omitted = data, omitted
	return d
}

// fetchBlob reads data by its digest.
func (s *attachedSession) fetchBlob(ctx context.Context, b timeline.Blob, room int64) ([]byte, error) {
	if b.Digest == "" || b.Bytes > room {
		return nil, session.Errorf(session.KindTooLarge, "%d bytes do not fit into a message", b.Bytes)
	}
	return session.ReadBlob(ctx, s.session, b)
}

// newCommCursor returns the position of a new peer. s may be nil.
func (s *attachedSession) newCommCursor(ctx context.Context) *comms.CommCursor {
	if s == nil {
		return comms.NewCommCursor(ctx, nil)
	}
	return comms.NewCommCursor(ctx, s.session)
}

// cursorAfter returns the cursor after an event.
func cursorAfter(e timeline.Event) timeline.Seq {
	if gap, ok := e.Body.(timeline.Gap); ok {
		return max(e.Seq, gap.To)
	}
	return e.Seq
}

// readEvents passes on the events after a cursor until the session or ctx ends.
func (s *attachedSession) readEvents(ctx context.Context, after timeline.Seq, events chan<- timeline.Event) {
	for ctx.Err() == nil {
		for e, err := range s.session.Events(ctx, after) {
			if err != nil {
				break
			}
			select {
			case events <- e:
				after = max(after, cursorAfter(e))
			case <-ctx.Done():
				return
			}
		}
		_, _, changed, over := s.turnState(0)
		if over != nil {
			return // followEvents has recorded why
		}
		select {
		case <-changed:
		case <-time.After(reconnectDelay): // then the daemon may be reachable again
		case <-ctx.Done():
		}
	}
}
