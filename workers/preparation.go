package workers

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A Preparation is work that must be done before a worker can start, such as compiling a
// library or downloading packages. A supervisor does it once for all sessions that wait for the
// same Key.
type Preparation struct {
	// Key is equal for all specs that need the same work.
	Key string

	// Name names the result for users: "numpy, pandas". "" means a part of the worker.
	Name string

	// Timeout bounds its duration; 0 means the start timeout of a worker.
	Timeout time.Duration

	// Run does the work, and stops when ctx ends. It must be quick if the work was done before,
	// and calls report from one goroutine at a time. Its error is shown to the users of the
	// session, and may have several lines.
	Run func(ctx context.Context, report func(PreparationProgress)) (PreparationResult, error)
}

// A PreparationProgress reports how far a preparation has got.
type PreparationProgress struct {
	Done, Total int64  // in any unit; Total is 0 while unknown
	Message     string // one printable line
}

// PreparationResult is what a preparation adds to a Spec.
type PreparationResult struct {
	Files  map[string][]byte // more of Spec.Files
	Env    []string          // applied after Spec.Env
	Notice string            // one line for the users of the session; may be ""
}

// WithResult returns a copy of the spec with the result of a preparation.
func (s *Spec) WithResult(made PreparationResult) Spec {
	with := *s
	with.Env = slices.Concat(s.Env, made.Env)
	with.Files = make(map[string][]byte, len(s.Files)+len(made.Files))
	maps.Copy(with.Files, s.Files)
	maps.Copy(with.Files, made.Files)
	return with
}

// RunPreparations runs all preparations and returns the spec with their results, for a program
// without a supervisor. A nil report is not called.
func (s *Spec) RunPreparations(ctx context.Context, report func(PreparationProgress)) (Spec, error) {
	if report == nil {
		report = func(PreparationProgress) {}
	}
	done := *s
	for _, p := range s.Preparations {
		made, err := p.Run(ctx, report)
		if err != nil {
			return done, err
		}
		done = done.WithResult(made)
	}
	done.Preparations = nil
	return done, nil
}
