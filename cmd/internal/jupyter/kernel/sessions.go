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

// maxTurns bounds the turns that are remembered, for peers that are behind. The outputs of an
// older one come with a parent of our making.
const maxTurns = 4096

// againTime is the pause before events are read again that could not be read.
const againTime = 200 * time.Millisecond

// sessions holds the session of now, and replaces one that has ended when it is needed.
type sessions struct {
	k       *kernel
	opening chan struct{} // holds one: who opens
	lives   int           // changed by who opens

	mu      sync.Mutex
	now     *life         // nil before the first
	changed chan struct{} // closed when now is another one
	used    bool          // code has run whose variables would be missed
	loss    error         // how they were lost, which no cell has been told; nil if they were not
}

func (s *sessions) init(k *kernel) {
	s.k, s.opening, s.changed = k, make(chan struct{}, 1), make(chan struct{})
}

// current returns the session of now, which may have ended, and what is closed when there is
// another one.
func (s *sessions) current() (*life, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.changed
}

// use notes that code runs whose variables are there from now on.
func (s *sessions) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
}

// lose notes how the variables were lost. The next cell is told, unless this one is.
func (s *sessions) lose(how error, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used && !told {
		s.loss = how
	}
	s.used = false
}

// takeLoss returns how the variables were lost, for the cell that tells it.
func (s *sessions) takeLoss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := s.loss
	s.loss = nil
	return how
}

// get returns a session that lives, and opens one if need be.
func (s *sessions) get(ctx context.Context) (*life, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now, _ := s.current(); now != nil && now.alive() {
		return now, nil
	}
	there, info, err := s.k.o.Open(ctx)
	if err != nil {
		return nil, err
	}
	s.lives++
	l := &life{
		k: s.k, number: s.lives, s: there, opened: info.OpenedAt, start: info.LastSeq, seen: info.LastSeq,
		generation: info.Generation, count: countOf(ctx, there, info),
		turns: make(map[uint64]*turn), mine: make(map[uint64]*job), changed: make(chan struct{}),
	}
	s.mu.Lock()
	s.now = l
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.k.tasks.Go(l.follow)
	return l, nil
}

// countOf returns how many inputs the worker of now has had, which a new kernel goes on to count.
func countOf(ctx context.Context, there session.Session, info session.Info) (count uint64) {
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

// A life is one session from the moment when it was opened until it ends.
type life struct {
	k      *kernel
	number int // of the life: 1, 2, …
	s      session.Session
	opened time.Time
	start  timeline.Seq

	submitting sync.Mutex // held while a turn of ours is being started, so that its number is known

	mu         sync.Mutex
	seen       timeline.Seq // all up to it are known
	generation uint64       // of the worker that count is of: each has its own variables, and its own numbers
	count      uint64       // of the last turn that is part of the history
	turns      map[uint64]*turn
	mine       map[uint64]*job // turns of ours whose start was not seen; nil for an expression
	latest     uint64
	over       error         // why it has ended; nil while it lives
	changed    chan struct{} // closed at each change
}

// A turn is one of the session's, as far as it is known.
type turn struct {
	number  uint64
	author  string
	request *job        // nil: not a request of ours
	parent  wire.Header // of its outputs
	count   uint64      // the number that a notebook shows
	silent  bool
	hidden  bool // it is no part of the history, and has no number of its own
	code    string

	wait      timeline.InputRequested // what it asks now
	waitID    timeline.Seq            // 0: nothing
	traceback []byte
	death     *timeline.WorkerExited
	ended     *timeline.TurnEnded
}

func (l *life) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over == nil
}

// submit starts a turn for a request.
func (l *life) submit(ctx context.Context, j *job, code string, silent bool) (uint64, error) {
	l.submitting.Lock()
	defer l.submitting.Unlock()
	start := l.s.Submit
	if silent {
		start = l.s.SubmitSilent
	}
	n, err := start(ctx, code)
	if err == nil {
		l.mu.Lock()
		l.mine[n] = j
		l.mu.Unlock()
	}
	return n, err
}

// follow reads the timeline for all, until the session ends or cannot be found any more.
func (l *life) follow() {
	for l.k.ctx.Err() == nil {
		var why error
		for e, err := range l.s.Events(l.k.ctx, l.cursor()) {
			if err != nil {
				why = err
				break
			}
			l.note(e)
			if _, ok := e.Body.(timeline.Gap); ok {
				l.recover()
			}
		}
		if l.k.ctx.Err() == nil && !l.found(why) {
			l.end(why)
			return
		}
		select {
		case <-time.After(againTime):
		case <-l.k.ctx.Done():
		}
	}
}

// recover asks for the outcome of a turn whose end may be among dropped events.
func (l *life) recover() {
	l.mu.Lock()
	for n, j := range l.mine {
		if j != nil { // Its start may be among them, too.
			l.turns[n], l.latest = l.countedLocked(turn{number: n, request: j, parent: j.Header, code: j.execute.Code}), max(l.latest, n)
			delete(l.mine, n)
		}
	}
	l.mu.Unlock()
	t, ok := l.active()
	if !ok {
		return
	}
	reply, err := l.s.Wait(l.k.ctx, t.number, &session.WaitOptions{Poll: true, After: l.cursor()})
	if err != nil || reply.Outcome == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns[t.number].ended = &timeline.TurnEnded{Outcome: reply.Outcome}
	l.changedLocked()
}

// found reports whether the session is still there after its events have ended.
func (l *life) found(why error) bool {
	if session.KindOf(why) == session.KindClosed {
		return false
	}
	info, err := l.s.Info(l.k.ctx)
	return err == nil && info.OpenedAt.Equal(l.opened)
}

func (l *life) cursor() timeline.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

func (l *life) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if why == nil {
		why = session.ErrClosed
	}
	l.over = fmt.Errorf("the session has ended, and its variables are gone: %w", why)
	t := l.turns[l.latest]
	l.k.sessions.lose(l.over, t != nil && t.request != nil && !t.over())
	l.changedLocked()
}

func (l *life) changedLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// note takes one event in.
func (l *life) note(e timeline.Event) {
	started, isStart := e.Body.(timeline.TurnStarted)
	if isStart && started.Author == l.s.Author() {
		// It may be the turn that is being submitted: wait until its number is known.
		l.submitting.Lock()
		defer l.submitting.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = max(l.seen, last(e))
	if isStart {
		l.beginLocked(e, started)
	} else if t := l.turns[e.Turn]; t != nil && (!e.BetweenTurns || t.dying()) {
		t.note(e)
		l.loseLocked(e, t.request != nil)
	} else {
		l.loseLocked(e, false)
		return // Nobody waits for it.
	}
	l.changedLocked()
}

func (l *life) beginLocked(e timeline.Event, started timeline.TurnStarted) {
	if l.turns[e.Turn] != nil {
		return // It was taken for lost.
	}
	j := l.mine[e.Turn]
	delete(l.mine, e.Turn)
	if e.Generation != l.generation {
		l.generation, l.count = e.Generation, 0
	}
	t := l.countedLocked(turn{number: e.Turn, author: started.Author, request: j, silent: e.Silent, code: string(started.Input)})
	if !t.silent {
		l.k.sessions.use()
	}
	if j != nil {
		t.parent = j.Header
	} else {
		t.parent = l.parentOf(e.Turn, started.Author)
	}
	l.turns[e.Turn], l.latest = t, e.Turn
	delete(l.turns, e.Turn-maxTurns)
}

// loseLocked notes the end of a worker, which a cell tells that it ended.
func (l *life) loseLocked(e timeline.Event, told bool) {
	if died, ok := e.Body.(timeline.WorkerExited); ok && !died.NeverReady {
		l.k.sessions.lose(&lossError{died}, told)
	}
}

// A lossError tells that a worker has ended.
type lossError struct{ died timeline.WorkerExited }

func (e *lossError) Error() string {
	return "the worker has ended, and its variables are gone: " + e.died.FullReason()
}

// onPurpose reports whether somebody has asked for the loss.
func (e *lossError) onPurpose() bool { return e.died.Clean && e.died.Reason == "reset" }

// countedLocked gives a turn its number. As in IPython, it gets one if it is to be found in the history.
func (l *life) countedLocked(t turn) *turn {
	t.hidden = t.silent || t.number == 0 || strings.TrimSpace(t.code) == "" || t.request != nil && !t.request.execute.StoreHistory
	if !t.hidden {
		l.count++
	}
	t.count = l.count
	return &t
}

// isHidden reports whether a turn is known to be no part of the history.
func (l *life) isHidden(n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[n]
	return t != nil && t.hidden
}

// parentOf makes the header of a request that nobody sent, for the outputs of a turn that came
// another way.
func (l *life) parentOf(n uint64, author string) wire.Header {
	h := wire.NewHeader(author, author, "execute_request")
	h.ID = fmt.Sprintf("turn-%d", n)
	return h
}

// dying reports whether the worker ended with the turn, and its report is not there yet.
func (t *turn) dying() bool {
	return t.death == nil && t.ended != nil && t.ended.Outcome == timeline.OutcomeEnded
}

// over reports whether all is known of the turn.
func (t *turn) over() bool { return t.ended != nil && !t.dying() }

func (t *turn) note(e timeline.Event) {
	switch b := e.Body.(type) {
	case timeline.InputRequested:
		t.wait, t.waitID = b, e.Seq
	case timeline.InputRequestEnded:
		if b.Request == t.waitID {
			t.waitID = 0
		}
	case timeline.Text:
		if b.Kind == timeline.TextTraceback && len(t.traceback) < maxTraceback {
			t.traceback = append(t.traceback, b.Data...)
		}
	case timeline.WorkerExited:
		t.death = &b
	case timeline.TurnEnded:
		t.ended, t.waitID = &b, 0
	}
}

// turn returns a turn that is known to have started, and waits until it was seen. It returns nil
// if the life ends before, and for one that is forgotten.
func (l *life) turn(ctx context.Context, n uint64, seq timeline.Seq) *turn {
	for {
		l.mu.Lock()
		t, known, changed := l.turns[n], l.seen >= seq || l.over != nil, l.changed
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

// state is a copy of what is known of a turn now; ok is false when it has not been seen.
func (l *life) state(n uint64) (t turn, ok bool, changed <-chan struct{}, over error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.turns[n]; at != nil {
		t, ok = *at, true
	}
	return t, ok, l.changed, l.over
}

// active returns the turn that runs now, as far as it was seen.
func (l *life) active() (t turn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.turns[l.latest]; at != nil && !at.over() {
		return *at, true
	}
	return turn{}, false
}
