package mcpserver

import (
	"cmp"

	"github.com/turnstone-repl/turnstone/workers"
)

// A bound is what a client lets its own commands do. No session for it may do more.
type bound struct {
	theirs *workers.Sandbox // nil: the client says nothing
	dir    string           // where the session works
	words  []string         // for the model, once
}

// boundOf returns the bound for a session in dir, which may be "".
func (s *sessions) boundOf(codex *codexState, dir string) bound {
	b := bound{dir: realDir(cmp.Or(dir, s.here))}
	var unheld []string
	b.theirs, unheld = codex.sandbox(b.dir)
	narrows := b.narrow(s.sandbox) != s.sandbox
	switch {
	case narrows && !s.narrows:
		b.theirs, b.words = nil, []string{"Codex confines its own commands, and no session on this system can be confined"}
		return b
	case narrows:
		b.words = append(b.words, "Codex allows its own commands no more")
	}
	for _, what := range unheld {
		b.words = append(b.words, "not all that Codex asks for holds: "+what)
	}
	return b
}

// narrow returns a sandbox as far as the bound allows it, which is the same one if it allows all.
func (b bound) narrow(s *workers.Sandbox) *workers.Sandbox {
	if b.theirs == nil {
		return s
	}
	return s.Narrower(b.theirs, b.dir)
}

// beyondClient says why code must not run here now: the session may do more than the client
// allows since it was opened. A running worker cannot be narrowed; "" if nothing is wrong.
func (a *sessionCall) beyondClient() string {
	b := a.sessions.boundOf(a.call.codex, cmp.Or(a.session.Now.Dir, a.view.dir))
	now := b.narrow(a.session.Sandbox)
	if now == a.session.Sandbox {
		return ""
	}
	return "this session has the sandbox " + a.session.Sandbox.String() + ", and Codex now allows " + now.String() +
		`: session "new" makes one with that; repl_reset with close ends this one, and its variables are lost`
}
