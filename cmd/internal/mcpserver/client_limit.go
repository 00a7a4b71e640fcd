package mcpserver

import (
	"cmp"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
)

// A clientLimit holds the limits that a client sets for its own commands. No session for it may
// exceed them.
type clientLimit struct {
	sandbox *workers.Sandbox // nil: the client sets no limit
	dir     string           // the session's working directory
	notices []string         // for the model, once
}

// clientLimitFor returns the limit for a session in dir, which may be "".
func (s *sessions) clientLimitFor(codex *codexState, dir string) clientLimit {
	l := clientLimit{dir: paths.RealOrSame(cmp.Or(dir, s.processDir))}
	var unenforced []string
	l.sandbox, unenforced = codex.allowedSandbox(l.dir)
	_, narrows := l.intersect(s.sandbox)
	switch {
	case narrows && !s.canConfine:
		l.sandbox, l.notices = nil, []string{"Codex confines its own commands, but sessions on this system cannot be confined"}
		return l
	case narrows:
		l.notices = append(l.notices, "the sandbox is limited to what Codex allows its own commands")
	}
	for _, rule := range unenforced {
		l.notices = append(l.notices, "a rule of Codex is not enforced: "+rule)
	}
	return l
}

// intersect narrows a sandbox to the limit, and reports whether the limit takes anything from it.
func (l clientLimit) intersect(s *workers.Sandbox) (policy *workers.Sandbox, narrowed bool) {
	if l.sandbox == nil {
		return s, false
	}
	return s.Intersect(l.sandbox, l.dir)
}

// narrow returns what the limit leaves of a sandbox.
func (l clientLimit) narrow(s *workers.Sandbox) *workers.Sandbox {
	policy, _ := l.intersect(s)
	return policy
}

// clientLimitRefusal returns why code must not run here now, or "": the client has lowered its
// limit since the session was opened. A running worker's sandbox cannot be narrowed.
func (sc *sessionCall) clientLimitRefusal() string {
	l := sc.sessions.clientLimitFor(sc.call.codex, cmp.Or(sc.session.InitialInfo.Dir, sc.caller.dir))
	now, narrowed := l.intersect(sc.session.Sandbox)
	if !narrowed {
		return ""
	}
	return "this session has the sandbox " + sc.session.Sandbox.String() + ", and Codex now allows " + now.String() +
		`: session "new" creates one with that; repl_reset with close ends this one, and its variables are lost`
}
