package supervisor

import (
	"context"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// A userDecision is a user's answer to a pending call. The zero value is a refusal, and cancels a
// form.
type userDecision struct {
	allowed bool
	form    session.FormAnswer
}

// awaitDecision blocks a call of a generation until the user decides. It gives the call an ID and
// passes the ID to ask, which runs with s.mu held.
func (s *Session) awaitDecision(ctx context.Context, generation uint64, ask func(id uint64)) userDecision {
	answer := make(chan userDecision, 1)
	s.mu.Lock()
	if s.worker == nil || s.m.generation != generation {
		s.unlock()
		return userDecision{}
	}
	s.lastPendingCall++
	id := hostCallBit + s.lastPendingCall
	if s.pendingDecisions == nil {
		s.pendingDecisions = make(map[uint64]chan userDecision)
	}
	s.pendingDecisions[id] = answer
	ask(id)
	s.unlock()
	select {
	case v := <-answer:
		return v
	case <-ctx.Done():
	}
	s.releaseCall(id)
	return userDecision{}
}

// releaseCall withdraws the request of a pending call that has ended.
func (s *Session) releaseCall(id uint64) {
	s.mu.Lock()
	defer s.unlock()
	delete(s.pendingDecisions, id)
	s.m.handleDenial(monitorproto.Denial{ID: id, Resolved: true}, session.Grant{})
}

// hostCallBit marks the IDs of pending calls that this process counts, such as connections and
// calls of functions. The monitor counts its own calls from 1.
const hostCallBit = 1 << 62
