package mcpserver

import (
	"cmp"

	"github.com/turnstone-repl/turnstone/workers"
)

// A clientLimit is what a client lets its own commands do. No session for it may do more.
type clientLimit struct {
	sandbox *workers.Sandbox // nil: the client says nothing
	dir     string           // where the session works
	notices []string         // for the model, once
}

// clientLimitFor returns the bound for a session in dir, which may be "".
func (s *sessions) clientLimitFor(codex *codexState, dir string) clientLimit {
	b := clientLimit{dir: realDir(cmp.Or(dir, s.processDir))}
	var unheld []string
	b.sandbox, unheld = codex.allowedSandbox(b.dir)
	narrows := b.intersect(s.sandbox) != s.sandbox
	switch {
	case narrows && !s.canConfine:
		b.sandbox, b.notices = nil, []string{"Codex confines its own commands, and no session on this system can be confined"}
		return b
	case narrows:
		b.notices = append(b.notices, "Codex allows its own commands no more")
	}
	for _, what := range unheld {
		b.notices = append(b.notices, "not all that Codex asks for holds: "+what)
	}
	return b
}

// intersect returns a sandbox as far as the bound allows it, which is the same one if it allows all.
func (b clientLimit) intersect(s *workers.Sandbox) *workers.Sandbox {
	if b.sandbox == nil {
		return s
	}
	return s.Narrower(b.sandbox, b.dir)
}

// clientLimitRefusal says why code must not run here now: the session may do more than the client
// allows since it was opened. A running worker cannot be narrowed; "" if nothing is wrong.
func (a *sessionCall) clientLimitRefusal() string {
	b := a.sessions.clientLimitFor(a.call.codex, cmp.Or(a.session.InitialInfo.Dir, a.caller.dir))
	now := b.intersect(a.session.Sandbox)
	if now == a.session.Sandbox {
		return ""
	}
	return "this session has the sandbox " + a.session.Sandbox.String() + ", and Codex now allows " + now.String() +
		`: session "new" makes one with that; repl_reset with close ends this one, and its variables are lost`
}
