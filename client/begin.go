package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// noteTime is how long Note waits for a call that takes its mark along.
const noteTime = time.Second

// StartTurn implements session.TurnStarter: the turn is started and waited for in one call.
func (s *Session) StartTurn(code string, begun func(turn uint64)) session.PendingTurn {
	t := s.starting(begun)
	t.alone = func(ctx context.Context) (uint64, error) { return s.Submit(ctx, code) }
	t.whole = func(ctx context.Context, o wholeCall) (session.Reply, error) {
		return s.client.Start(ctx, StartParams{
			Session: s.name, Input: code, Author: s.author, Keyboard: s.keyboard,
			After: o.after, Read: o.read, WaitMS: o.waitMS, GoesOn: true, Request: t.request,
		})
	}
	return t
}

// StartAnswer implements session.TurnStarter: the wait is answered and its turn waited for in one
// call.
func (s *Session) StartAnswer(wait timeline.Seq, in session.Input, begun func(turn uint64)) session.PendingTurn {
	t := s.starting(begun)
	t.alone = func(ctx context.Context) (uint64, error) { return s.Answer(ctx, wait, in) }
	t.whole = func(ctx context.Context, o wholeCall) (session.Reply, error) {
		return s.client.Input(ctx, InputParams{
			Session: s.name, Wait: wait, Input: string(in.Data), EOF: in.EOF, Author: s.author,
			After: o.after, Read: o.read, WaitMS: o.waitMS, GoesOn: true, Request: t.request,
		})
	}
	return t
}

func (s *Session) starting(begun func(uint64)) *starting {
	t := &starting{s: s, begun: begun}
	if l := s.client.link; l != nil {
		t.request = l.newRequest()
	}
	return t
}

// A starting is a turn that is being started, or goes on with an answer.
type starting struct {
	s       *Session
	request string // "" without a Link
	begun   func(uint64)

	alone func(context.Context) (turn uint64, err error)          // begins it, and does not wait
	whole func(context.Context, wholeCall) (session.Reply, error) // begins it, or finds it begun, and waits

	turn  atomic.Uint64
	known atomic.Bool // it has begun, and turn is set
	once  sync.Once
}

// A wholeCall is the part of such a call that is about waiting.
type wholeCall struct {
	after, read timeline.Seq
	waitMS      int64
}

// Turn implements session.PendingTurn.
func (t *starting) Turn() uint64 { return t.turn.Load() }

// Wait implements session.PendingTurn.
func (t *starting) Wait(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	if !t.known.Load() {
		if l := t.s.client.link; l != nil && o != nil && (o.Poll || o.Timeout > 0) {
			return t.start(ctx, l, *o)
		}
		turn, err := t.alone(ctx)
		if err != nil {
			return session.Reply{}, err
		}
		t.isBegun(turn)
	}
	return t.s.Wait(ctx, t.Turn(), o)
}

// start begins the turn, or finds it begun, and waits for it.
func (t *starting) start(ctx context.Context, l *Link, o session.WaitOptions) (session.Reply, error) {
	l.mu.Lock()
	l.begun[t.request] = t.isBegun
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.begun, t.request)
		l.mu.Unlock()
	}()
	p := wholeCall{after: o.After, read: t.s.note.take()}
	if !o.Poll {
		p.waitMS = ms(min(o.Timeout, longPoll))
	}
	r, err := t.whole(ctx, p)
	if err == nil {
		t.isBegun(r.Turn)
	} else if p.read > 0 {
		t.s.Note(p.read)
	}
	return r, err
}

func (t *starting) isBegun(turn uint64) {
	t.once.Do(func() {
		t.turn.Store(turn)
		t.known.Store(true)
		if t.begun != nil {
			t.begun(turn)
		}
	})
}

// A note is a mark that the next call takes along.
type note struct {
	mu    sync.Mutex
	seq   timeline.Seq // guarded by mu; 0: none
	timer *time.Timer  // guarded by mu; nil before the first
}

func (n *note) take() timeline.Seq {
	n.mu.Lock()
	defer n.mu.Unlock()
	seq := n.seq
	n.seq = 0
	if n.timer != nil {
		n.timer.Stop()
	}
	return seq
}

// Note is Mark for a daemon elsewhere: the next turn takes the mark along, or it is sent when none
// comes within a second. Flush sends it at once.
func (s *Session) Note(seq timeline.Seq) {
	s.note.mu.Lock()
	defer s.note.mu.Unlock()
	s.note.seq = max(s.note.seq, seq)
	if s.note.timer == nil {
		s.note.timer = time.AfterFunc(noteTime, func() {
			ctx, stop := context.WithTimeout(context.Background(), shortCall)
			defer stop()
			_ = s.Flush(ctx)
		})
	} else {
		s.note.timer.Reset(noteTime)
	}
}

// Flush sends what Note has kept.
func (s *Session) Flush(ctx context.Context) error {
	seq := s.note.take()
	if seq == 0 {
		return nil
	}
	_, err := s.Mark(ctx, seq)
	return err
}
