package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// readCursorDelay is how long NoteReadCursor waits for a call that can carry the cursor.
const readCursorDelay = time.Second

// StartTurn implements session.TurnStarter: one call starts the turn and waits for it.
func (s *Session) StartTurn(code string, onStart func(turn uint64)) session.PendingTurn {
	t := s.newPendingTurn(onStart)
	t.startOnly = func(ctx context.Context) (uint64, error) { return s.Submit(ctx, code) }
	t.startAndWait = func(ctx context.Context, o waitingCall) (session.Reply, error) {
		return startTurn(ctx, s.calls, protocol.StartParams{
			Session: s.name, Input: code, Author: s.author, WriteLock: s.writeLock, Dialect: s.dialect,
			After: o.after, ReadCursor: o.readCursor, WaitMS: o.waitMS, Continues: true, Request: t.request,
		})
	}
	return t
}

// StartAnswer implements session.TurnStarter: one call answers the input request and waits for
// the turn.
func (s *Session) StartAnswer(request timeline.Seq, in session.Input, onStart func(turn uint64)) session.PendingTurn {
	t := s.newPendingTurn(onStart)
	t.startOnly = func(ctx context.Context) (uint64, error) { return s.Answer(ctx, request, in) }
	t.startAndWait = func(ctx context.Context, o waitingCall) (session.Reply, error) {
		return sendInput(ctx, s.calls, protocol.InputParams{
			Session: s.name, InputRequest: request, Input: string(in.Data), EOF: in.EOF, Author: s.author,
			After: o.after, ReadCursor: o.readCursor, WaitMS: o.waitMS, Continues: true, Request: t.request,
		})
	}
	return t
}

func (s *Session) newPendingTurn(onStart func(uint64)) *pendingTurn {
	return &pendingTurn{session: s, onStart: onStart, request: s.calls.newRequestID()}
}

// A pendingTurn is a turn that is being started or answered.
type pendingTurn struct {
	session *Session
	request string // "" if its calls are not repeated
	onStart func(uint64)

	startOnly    func(context.Context) (turn uint64, err error)            // starts it without waiting
	startAndWait func(context.Context, waitingCall) (session.Reply, error) // starts it, unless it has started, and waits

	turn    atomic.Uint64
	started atomic.Bool // the turn has started, and turn is set
	once    sync.Once
}

// A waitingCall holds the parameters of a call that say how it waits for its turn.
type waitingCall struct {
	after, readCursor timeline.Seq
	waitMS            int64
}

// Turn implements session.PendingTurn.
func (t *pendingTurn) Turn() uint64 { return t.turn.Load() }

// Wait implements session.PendingTurn.
func (t *pendingTurn) Wait(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	if !t.started.Load() {
		if t.request != "" && o != nil && (o.Poll || o.Timeout > 0) {
			return t.callAndWait(ctx, *o)
		}
		turn, err := t.startOnly(ctx)
		if err != nil {
			return session.Reply{}, err
		}
		t.markStarted(turn)
	}
	return t.session.Wait(ctx, t.Turn(), o)
}

// callAndWait starts the turn, unless it has started, and waits for it.
func (t *pendingTurn) callAndWait(ctx context.Context, o session.WaitOptions) (session.Reply, error) {
	defer t.session.calls.watchTurn(t.request, t.markStarted)()
	p := waitingCall{after: o.After, readCursor: t.session.pendingCursor.takeSeq()}
	if !o.Poll {
		p.waitMS = protocol.Millis(min(o.Timeout, maxPollTimeout))
	}
	r, err := t.startAndWait(ctx, p)
	if err == nil {
		t.markStarted(r.Turn)
	} else if p.readCursor > 0 {
		t.session.NoteReadCursor(p.readCursor)
	}
	return r, err
}

func (t *pendingTurn) markStarted(turn uint64) {
	t.once.Do(func() {
		t.turn.Store(turn)
		t.started.Store(true)
		if t.onStart != nil {
			t.onStart(turn)
		}
	})
}

// A pendingReadCursor is a read cursor that the next call carries to the daemon.
type pendingReadCursor struct {
	mu    sync.Mutex
	seq   timeline.Seq // guarded by mu; 0 means none
	timer *time.Timer  // guarded by mu; nil before the first
}

func (c *pendingReadCursor) takeSeq() timeline.Seq {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq := c.seq
	c.seq = 0
	if c.timer != nil {
		c.timer.Stop()
	}
	return seq
}

// NoteReadCursor is SaveReadCursor for a remote daemon: the next turn carries the cursor, or it
// is sent if no turn starts within a second. FlushReadCursor sends it at once.
func (s *Session) NoteReadCursor(seq timeline.Seq) {
	s.pendingCursor.mu.Lock()
	defer s.pendingCursor.mu.Unlock()
	s.pendingCursor.seq = max(s.pendingCursor.seq, seq)
	if s.pendingCursor.timer == nil {
		s.pendingCursor.timer = time.AfterFunc(readCursorDelay, func() {
			ctx, stop := context.WithTimeout(context.Background(), shortCallTimeout)
			defer stop()
			_ = s.FlushReadCursor(ctx)
		})
	} else {
		s.pendingCursor.timer.Reset(readCursorDelay)
	}
}

// FlushReadCursor sends the cursor that NoteReadCursor has stored.
func (s *Session) FlushReadCursor(ctx context.Context) error {
	seq := s.pendingCursor.takeSeq()
	if seq == 0 {
		return nil
	}
	_, err := s.SaveReadCursor(ctx, seq)
	return err
}
