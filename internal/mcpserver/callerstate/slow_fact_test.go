package callerstate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// A closedBackend has no sessions and opens none.
type closedBackend struct{}

func (closedBackend) Remotes() []string { return nil }

func (closedBackend) Open(context.Context, string, string, string, func(*sandbox.Policy) *sandbox.Policy, func(string)) (*backend.SessionHandle, error) {
	return nil, session.ErrLimit
}

func (closedBackend) Sessions(context.Context, string) ([]session.Info, error) { return nil, nil }

func TestSessions_ResolveAndOpen(t *testing.T) {
	t.Parallel()

	newConfig := func(search func()) *SessionSetConfig {
		spec := func(string) workers.Spec { search(); return workers.Spec{} }
		return &SessionSetConfig{Backend: closedBackend{}, Specs: map[string]func(string) workers.Spec{"python": spec, "r": spec}, Logger: slog.New(slog.DiscardHandler)}
	}

	t.Run("searches for a runtime without the lock, and once", func(t *testing.T) {
		t.Parallel()
		var s *SessionSet
		var searches atomic.Int32
		s = NewSessionSet(newConfig(func() {
			searches.Add(1)
			if !s.mu.TryLock() {
				t.Error("the sessions are locked during the search")
				return
			}
			s.mu.Unlock()
		}))
		defer s.Close()
		v, notices, err := s.ResolveAndOpen("", "", "", nil)
		if err != nil || v.Name != "python" || v.lang != "python" || len(notices) != 1 || searches.Load() != 1 {
			t.Errorf("got %+v, %q, %v after %d searches", v, notices, err, searches.Load())
		}
	})

	t.Run("takes a session that another call has opened during the search", func(t *testing.T) {
		t.Parallel()
		var s *SessionSet
		var first *CallerSession
		s = NewSessionSet(newConfig(func() {
			if first == nil {
				s.mu.Lock()
				first = newCallerSession("python", "python", "", &s.mu)
				first.used, first.cancelOpening = true, func() {}
				first.err = session.ErrClosed
				close(first.opened)
				s.byName["python"] = first
				s.mu.Unlock()
			}
		}))
		defer s.Close()
		if v, notices, err := s.ResolveAndOpen("", "", "", nil); v != first || notices != nil || err != nil {
			t.Errorf("got %p, %q, %v, want %p", v, notices, err, first)
		}
	})
}
