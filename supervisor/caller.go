package supervisor

import (
	"context"
	"path"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxDetailBytes bounds the arguments that a question shows.
const maxDetailBytes = 300

// A Caller is the code that calls a Function.
type Caller struct {
	Session    *Session
	Generation uint64
	Turn       uint64 // the active one; 0 between turns
	Function   string
}

type callerKey struct{}

// CallerOf returns the caller of the Function that was given ctx; zero without one.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// AskPermission asks whether a person allows this call: by a right that the session has, or now. Then
// the turn waits for a permission, which no model can give. with are the arguments in short. A
// right for all functions of a group does not cover one that is destructive. AskPermission is false
// where nobody can be asked, such as between turns, and when ctx ends.
func (c Caller) AskPermission(ctx context.Context, with string, destructive bool) bool {
	s := c.Session
	what := timeline.AccessDenied{Op: "call", Call: c.Function, Destructive: destructive, Detail: briefly(s.log.Redact(with), maxDetailBytes)}
	return s.awaitDecision(ctx, c.Generation, func(id uint64) { s.m.handleDeniedCall(id, what, session.Grant{Call: what.Call}) }).allowed
}

// ReportProgress tells how far a call is, as the progress of its turn. total is 0 when it is not known.
func (c Caller) ReportProgress(progress, total float64, message string) {
	s := c.Session
	s.mu.Lock()
	defer s.unlock()
	if s.m.generation == c.Generation && s.m.turn != nil && s.m.turn.id == c.Turn && c.Turn > 0 {
		s.m.recordEvent(timeline.Progress{Progress: progress, Total: total, Message: briefly(s.log.Redact(message), maxDetailBytes)})
	}
}

// A userDecision is what a person decided. The zero value is a no, and the cancel of a form.
type userDecision struct {
	allowed bool
	form    session.FormAnswer
}

// awaitDecision has a call of a generation wait for a verdict, under a number that ask is told; s.mu is
// held then.
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

// releaseCall ends the wait of a held call that is over.
func (s *Session) releaseCall(id uint64) {
	s.mu.Lock()
	defer s.unlock()
	delete(s.pendingDecisions, id)
	s.m.handleDenial(host.Denial{ID: id, Resolved: true}, session.Grant{})
}

// MatchFunction reports whether a pattern names a function, as [session.Grant].Call does: "github.*"
// names all of a group, but for those that are destructive.
func MatchFunction(pattern, function string, destructive bool) bool {
	if pattern == function {
		return true
	}
	ok, err := path.Match(pattern, function)
	return ok && err == nil && !destructive
}

func callGrantCovers(pattern string, d timeline.AccessDenied) bool {
	return pattern != "" && d.Call != "" && MatchFunction(pattern, d.Call, d.Destructive)
}

// widerGrant returns the right for all functions of a group; nil if that is not enough for the
// call.
func widerGrant(d timeline.AccessDenied) *session.Grant {
	group, _, found := strings.Cut(d.Call, ".")
	if !found || d.Destructive {
		return nil
	}
	return &session.Grant{Call: group + ".*"}
}

// hasOneTarget reports whether a grant names one right.
func hasOneTarget(g session.Grant) bool {
	n := 0
	for _, name := range []string{g.Read, g.Write, g.Host, g.Call} {
		if name != "" {
			n++
		}
	}
	return n == 1
}

// checkCallGrant refuses a grant for functions that cannot be meant.
func (s *Session) checkCallGrant(g session.Grant) (session.Grant, error) {
	if _, err := path.Match(g.Call, ""); err != nil {
		return g, session.Errorf(session.KindInvalid, "%q is no pattern for functions: write github.search_issues or github.*", g.Call)
	}
	if g.Always && s.o.Grants == nil {
		return g, session.Errorf(session.KindUnsupported, "nothing is kept for later sessions here: allow it for this session")
	}
	return g, nil
}
