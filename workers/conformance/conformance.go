// Package conformance checks that a program is a worker, by the worker protocol alone.
package conformance

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// Options for Run; nil means the defaults.
type Options struct {
	Dialect Dialect
	Timeout time.Duration // of each step; 0 means 10 s
}

// A Dialect is the code, in the worker's language, that the checks run.
type Dialect struct{}

// A Result is the outcome of one check.
type Result struct {
	Name    string
	Skipped string // why it does not apply; "" when it ran
	Err     error  // nil when the promise is kept
}

// Run starts workers by spec and checks them.
func Run(ctx context.Context, spec workers.Spec, o *Options) []Result { return nil }
