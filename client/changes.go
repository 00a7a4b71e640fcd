package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

// ChangeStream reports whenever a session, or any session, has changed. A slow reader gets only
// the newest tick of each session. A stream of a [Client] survives the end of its connection.
// Next is for one goroutine, the other methods for any.
type ChangeStream struct {
	calls  caller
	params protocol.SubscribeParams
	wake   chan struct{}

	mu       sync.Mutex
	position streamPosition // guarded by mu
	pending  []session.Tick // guarded by mu; the newest of each session, in order of change
	err      error          // guarded by mu; why no more will come

	// The following fields belong to the goroutine that calls Next.
	openSessions  map[string]bool // the reported sessions whose end was not reported
	mayHaveMissed bool            // some may have been closed while the connection was down
	losses        backoff.LossCounter
}

func newChangeStream(ctx context.Context, c caller, name string) (*ChangeStream, error) {
	t := &ChangeStream{calls: c, params: protocol.SubscribeParams{Session: name, ChangesOnly: true}, wake: make(chan struct{}, 1), openSessions: make(map[string]bool)}
	if _, err := c.subscribeReceiver(ctx, lostStream{}, t.params, t); err != nil {
		return nil, err
	}
	return t, nil
}

// ID is the name of the subscription in the daemon. It changes with the connection.
func (s *ChangeStream) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position.id
}

func (s *ChangeStream) setPosition(to streamPosition) (wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = to
	if isDisconnect(s.err) { // it may have been cancelled in the meantime
		s.err = nil
	}
	return s.err == nil
}

// Next waits for the next tick. The error is that of ctx, session.ErrClosed, or the error of the
// connection.
func (s *ChangeStream) Next(ctx context.Context) (session.Tick, error) {
	for {
		if s.mayHaveMissed {
			if err := s.reportMissedCloses(ctx); err != nil {
				return session.Tick{}, err
			}
		}
		s.mu.Lock()
		if len(s.pending) > 0 {
			next := s.pending[0]
			s.pending = s.pending[1:]
			s.mu.Unlock()
			if s.openSessions[next.Session] = true; next.Closed {
				delete(s.openSessions, next.Session)
			}
			return next, nil
		}
		err, before := s.err, s.position
		s.mu.Unlock()
		if isDisconnect(err) {
			if _, err := s.calls.subscribeReceiver(ctx, lostStream{at: before, err: err, losses: &s.losses}, s.params, s); err != nil {
				return session.Tick{}, err
			}
			s.mayHaveMissed = s.params.Session == ""
			continue
		}
		if err != nil {
			return session.Tick{}, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return session.Tick{}, ctx.Err()
		}
	}
}

// reportMissedCloses generates the last tick of each session that was closed while the
// connection was down.
func (s *ChangeStream) reportMissedCloses(ctx context.Context) error {
	now, err := listSessions(ctx, s.calls)
	if err != nil {
		return err
	}
	s.mayHaveMissed = false
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.openSessions {
		there := slices.ContainsFunc(now, func(i session.Info) bool { return i.Name == name })
		if !there && !slices.ContainsFunc(s.pending, func(k session.Tick) bool { return k.Session == name }) {
			s.pending = append(s.pending, session.Tick{Session: name, Closed: true})
		}
	}
	return nil
}

// Cancel ends the subscription.
func (s *ChangeStream) Cancel(ctx context.Context) error {
	s.mu.Lock()
	at := s.position
	s.mu.Unlock()
	return at.unsubscribe(ctx, s)
}

func (s *ChangeStream) enqueue(m *jsonrpc2.Message) {
	if m.Method == protocol.MethodEnded {
		s.closeWithError(endReason(m))
		return
	}
	var p protocol.ChangeNotice
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.pending = slices.DeleteFunc(s.pending, func(old session.Tick) bool { return old.Session == p.Change.Session })
	s.pending = append(s.pending, p.Change)
	s.wakeReader()
}

func (s *ChangeStream) closeWithError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || isDisconnect(s.err) {
		s.err = err
	}
	s.wakeReader()
}

func (s *ChangeStream) wakeReader() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
