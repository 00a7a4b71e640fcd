package supervisor

import (
	"context"
	"path"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxDetailBytes bounds the arguments that a permission request shows.
const maxDetailBytes = 300

// A Caller identifies the code in a session that is calling a Function.
type Caller struct {
	Session    *Session
	Generation uint64
	Turn       uint64 // the active turn; 0 between turns
	Function   string
}

type callerKey struct{}

// CallerOf returns the caller of the Function that received ctx. Without one, it returns the zero
// Caller.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// AskPermission reports whether the user allows this call: either by a grant that the session
// already has, or by answering now. While it asks, the turn waits for a permission, which no model
// can give. arguments is a short form of the call's arguments. A grant for all functions of a group
// does not cover a destructive function. AskPermission returns false when ctx ends, and when no
// user can be asked, such as between turns.
func (c Caller) AskPermission(ctx context.Context, arguments string, destructive bool) bool {
	s := c.Session
	denied := timeline.AccessDenied{Op: "call", Call: c.Function, Destructive: destructive, Detail: fitValidText(s.log.Redact(arguments), maxDetailBytes)}
	return s.awaitDecision(ctx, c.Generation, func(id uint64) { s.m.handleDeniedCall(id, denied, session.Grant{Call: denied.Call}) }).allowed
}

// ReportProgress records how far a call is as progress of its turn. total is 0 if it is unknown.
func (c Caller) ReportProgress(progress, total float64, message string) {
	s := c.Session
	s.mu.Lock()
	defer s.unlock()
	if s.m.generation == c.Generation && s.m.turn != nil && s.m.turn.id == c.Turn && c.Turn > 0 {
		s.m.recordEvent(timeline.Progress{Progress: progress, Total: total, Message: fitValidText(s.log.Redact(message), maxDetailBytes)})
	}
}

// hasOneTarget reports whether a grant names exactly one path, host or function.
func hasOneTarget(g session.Grant) bool {
	n := 0
	for _, name := range []string{g.Read, g.Write, g.Host, g.Call} {
		if name != "" {
			n++
		}
	}
	return n == 1
}

// checkCallGrant rejects a grant for functions that is malformed or cannot be saved.
func (s *Session) checkCallGrant(g session.Grant) (session.Grant, error) {
	if _, err := path.Match(g.Call, ""); err != nil {
		return g, session.Errorf(session.KindInvalid, "%q is not a pattern for functions; write github.search_issues or github.*", g.Call)
	}
	if g.Always && s.o.Grants == nil {
		return g, session.Errorf(session.KindUnsupported, "grants are not saved here; allow it for this session only")
	}
	return g, nil
}
