package clientprofile

import (
	"github.com/turnstone-repl/turnstone/sandbox"
)

// A SandboxLimit holds the limits that a client sets for its own commands. No session for it may
// exceed them.
type SandboxLimit struct {
	Notices []string // for the model, once

	sandbox *sandbox.Policy // nil: the client sets no limit
	dir     string          // the session's working directory
}

// LimitFor returns the limit for a session that works in dir, without links, and would otherwise
// have the sandbox ours. canConfine means that this system supports sandboxes.
func (s *CodexState) LimitFor(dir string, ours *sandbox.Policy, canConfine bool) SandboxLimit {
	l := SandboxLimit{dir: dir}
	var unenforced []string
	l.sandbox, unenforced = s.allowedSandbox(dir)
	_, narrows := l.Intersect(ours)
	switch {
	case narrows && !canConfine:
		l.sandbox, l.Notices = nil, []string{"Codex runs its own commands in a sandbox, but sessions on this system cannot have one"}
		return l
	case narrows:
		l.Notices = append(l.Notices, "the sandbox is limited to what Codex allows its own commands")
	}
	for _, rule := range unenforced {
		l.Notices = append(l.Notices, "a rule of Codex is not enforced: "+rule)
	}
	return l
}

// Intersect narrows a sandbox to the limit, and reports whether the limit takes anything from it.
func (l SandboxLimit) Intersect(s *sandbox.Policy) (policy *sandbox.Policy, narrowed bool) {
	if l.sandbox == nil {
		return s, false
	}
	return s.Intersect(l.sandbox, l.dir)
}

// Narrow returns the sandbox narrowed to the limit.
func (l SandboxLimit) Narrow(s *sandbox.Policy) *sandbox.Policy {
	policy, _ := l.Intersect(s)
	return policy
}
