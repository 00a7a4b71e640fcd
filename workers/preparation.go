package workers

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A Preparation is work that must be done before a worker can start, such as compiling a
// library or downloading packages. A supervisor does it once for all sessions that wait
// for the same Key.
type Preparation struct {
	// Key is equal for all specs that need the same work.
	Key string

	// What names the result for a person: "numpy, pandas". "" means a part of the worker.
	What string

	// Limit is how long it may take; 0 means as long as the start of a worker.
	Limit time.Duration

	// Make makes it, and gives up when ctx ends. It must be quick when its work was
	// done before, and calls report from one goroutine at a time. Its error is shown to
	// those who use the session, and may have several lines.
	Make func(ctx context.Context, report func(Progress)) (Made, error)
}

// A Progress says how far a preparation is.
type Progress struct {
	Done, Total int64  // in a unit of its own; Total is 0 while it is not known
	Message     string // one printable line
}

// Made is what a preparation adds to a Spec.
type Made struct {
	Files  map[string][]byte // more of Spec.Files
	Env    []string          // applied behind Spec.Env
	Notice string            // one line for those who use the session; may be ""
}

// With returns the spec with the result of a preparation. s does not change.
func (s *Spec) With(made Made) Spec {
	with := *s
	with.Env = slices.Concat(s.Env, made.Env)
	with.Files = make(map[string][]byte, len(s.Files)+len(made.Files))
	maps.Copy(with.Files, s.Files)
	maps.Copy(with.Files, made.Files)
	return with
}

// Prepared makes all preparations and returns the spec with their results, for a program
// without a supervisor. A nil report is not called.
func (s *Spec) Prepared(ctx context.Context, report func(Progress)) (Spec, error) {
	if report == nil {
		report = func(Progress) {}
	}
	done := *s
	for _, p := range s.Prepare {
		made, err := p.Make(ctx, report)
		if err != nil {
			return done, err
		}
		done = done.With(made)
	}
	done.Prepare = nil
	return done, nil
}
