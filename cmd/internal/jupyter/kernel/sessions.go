package kernel

import (
	"context"
	"fmt"
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
		k: s.k, number: s.lives, s: there, opened: info.Opened, start: info.LastSeq, seen: info.LastSeq, count: info.Turn,
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

// A life is one session from the moment when it was opened until it ends.
type life struct {
	k      *kernel
	number int // of the life: 1, 2, …
	s      session.Session
	opened time.Time
	start  timeline.Seq

	submitting sync.Mutex // held while a turn of ours is being started, so that its number is known

	mu      sync.Mutex
	seen    timeline.Seq // all up to it are known
	count   uint64       // of the last turn that is not silent
	turns   map[uint64]*turn
	mine    map[uint64]*job // turns of ours whose start was not seen; nil for an expression
	latest  uint64
	over    error         // why it has ended; nil while it lives
	changed chan struct{} // closed at each change
}

// A turn is one of the session's, as far as it is known.
type turn struct {
	number  uint64
	author  string
	request *job        // nil: not a request of ours
	parent  wire.Header // of its outputs
	count   uint64      // the number that a notebook shows
	silent  bool
	code    string

	wait      timeline.Wait // what it asks now
	waitID    timeline.Seq  // 0: nothing
	traceback []byte
	death     *timeline.GenerationEnded
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
			l.count++
			l.turns[n], l.latest = &turn{number: n, request: j, parent: j.Header, count: l.count, code: j.execute.Code}, max(l.latest, n)
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
	return err == nil && info.Opened.Equal(l.opened)
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
	} else if t := l.turns[e.Turn]; t != nil && (!e.Between || t.dying()) {
		t.note(e)
	} else {
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
	if !e.Silent && e.Turn > 0 {
		l.count++
	}
	t := &turn{number: e.Turn, author: started.Author, request: j, count: l.count, silent: e.Silent, code: string(started.Input)}
	if j != nil {
		t.parent = j.Header
	} else {
		t.parent = l.parentOf(e.Turn, started.Author)
	}
	l.turns[e.Turn], l.latest = t, e.Turn
	delete(l.turns, e.Turn-maxTurns)
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
	case timeline.Wait:
		t.wait, t.waitID = b, e.Seq
	case timeline.WaitEnded:
		if b.Wait == t.waitID {
			t.waitID = 0
		}
	case timeline.Text:
		if b.Kind == timeline.TextTraceback && len(t.traceback) < maxTraceback {
			t.traceback = append(t.traceback, b.Data...)
		}
	case timeline.GenerationEnded:
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
