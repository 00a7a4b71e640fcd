package host

import "context"

// This system has no control groups, and no limits that they could keep.
type (
	group struct{}
	entry struct{}
)

func newGroup(context.Context, int, string, Limits, string) (*group, error) { return nil, nil }

func (*group) remove()              {}
func (*group) paths() (_, _ []byte) { return nil, nil }
func (*plan) entry() (entry, error) { return entry{}, nil }
func (entry) enter() error          { return nil }
func (entry) leave() error          { return nil }

func (*group) tasksFor(Limits, *Sandbox) int { return 0 }
func uncounted(*Command, error) string       { return "" }
