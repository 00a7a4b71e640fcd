package supervisor

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A useRecord holds what decides when an unused session is closed.
type useRecord struct {
	idleTimeout time.Duration // 0 means without limit, and until Open returns
	lastUse     time.Time     // when a call last began or ended
	activeCalls int           // calls that use the session now
	expired     bool          // the session is being closed because nobody used it
}

// startIdleClock starts the time of Options.SessionIdleTimeout. Only sessions that Open returns have
// one, so the discarded ones of failed starts are never closed twice.
func (s *Session) startIdleClock() {
	s.mu.Lock()
	defer s.unlock()
	s.m.idleTimeout, s.m.lastUse = s.o.SessionIdleTimeout, time.Now()
}

// beginUse notes that a call uses the session until end.
func (s *Session) beginUse() (end func()) {
	if s.o.SessionIdleTimeout == 0 {
		return func() {}
	}
	s.mu.Lock()
	s.m.activeCalls++ // the alarm stays: it finds a call and does nothing
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.unlock()
		s.m.activeCalls--
		s.m.lastUse = time.Now()
	}
}

// idleDeadline returns when the session is to be closed because nobody uses it; zero means never.
func (m *sessionMachine) idleDeadline() time.Time {
	if m.idleTimeout == 0 || m.activeCalls > 0 || m.expired || m.phase != phaseIdle && m.phase != phaseEnded {
		return time.Time{}
	}
	since := m.lastUse
	if m.stateSince.After(since) {
		since = m.stateSince // a turn has ended since the last use
	}
	return since.Add(m.idleTimeout)
}

// checkIdle marks the session as expired if nobody has used it for long enough.
func (m *sessionMachine) checkIdle() {
	if due := m.idleDeadline(); due.IsZero() || time.Now().Before(due) {
		return
	}
	m.expired, m.changed = true, true
	m.recordEvent(timeline.Notice{Message: m.closedError().Error()})
}

// closedError returns the error of calls to a closed session, with the reason.
func (m *sessionMachine) closedError() error {
	if m.expired {
		return session.Errorf(session.KindClosed, "the session was closed, because it was unused for %s", m.idleTimeout)
	}
	return session.ErrClosed
}

// closeUnused closes a session that has expired. Close of the supervisor waits for it.
func (sup *Supervisor) closeUnused(s *Session) {
	sup.mu.Lock()
	closed := sup.closed
	if !closed {
		sup.opening.Add(1)
	}
	sup.mu.Unlock()
	if closed { // Close closes it as well
		return
	}
	defer sup.opening.Done()
	sup.o.Logger.Info("session closed", "session", s.Name(), "why", "unused for "+s.o.SessionIdleTimeout.String())
	if err := s.Close(context.Background()); err != nil {
		sup.o.Logger.Warn("unused session not closed cleanly", "session", s.Name(), "error", err)
	}
}
