// Package conformance checks that a program is a worker, by the worker protocol
// alone: it starts the program on a terminal, speaks raw frames with it, and
// looks at what comes back. Order, interrupts and ends are what it is about;
// whether the language behind is any good is not.
//
//	for _, r := range conformance.Run(ctx, spec, &conformance.Options{Dialect: d}) {
//		fmt.Println(r.Name, r.Skipped, r.Err)
//	}
//
// # Goroutines
//
//	name      started by   ends when                       owns
//	frames    start        the channel ends                receiving
//	terminal  start        the terminal has no writers     reading the terminal
//	reaper    start        the worker is reaped            the call to Wait
//
// Each check starts workers of its own, and kills and waits for all of it.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// Options for Run; nil means the defaults.
type Options struct {
	// Dialect is the worker's language. Checks that need a snippet that it does
	// not have are skipped.
	Dialect Dialect

	// Timeout bounds every single step that waits for the worker. A worker that
	// conforms never makes anybody wait for it. 0 means 10 s.
	Timeout time.Duration
}

// A Result is the outcome of one check.
type Result struct {
	Name    string // the promise, in words
	Skipped string // why it does not apply; "" when it was tried
	Err     error  // why it is broken; nil when it is kept or was skipped
	Took    time.Duration
}

// A skip is the error of a check that does not apply, saying why.
type skip string

func (s skip) Error() string { return string(s) }

// Run checks the worker that spec starts, one promise after the other. When ctx
// ends, so does the check under way, and no other begins. An error of spec itself
// is the only result then.
func Run(ctx context.Context, spec workers.Spec, o *Options) []Result {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	if err := spec.Validate(); err != nil {
		return []Result{{Name: "the worker can be started", Err: err}}
	}
	var results []Result
	for _, c := range checks() {
		if ctx.Err() != nil {
			break
		}
		results = append(results, c.run(ctx, spec, &options))
	}
	return results
}

// A check is one promise of the protocol and how to try it.
type check struct {
	name string
	try  func(*session) error
}

func (c check) run(ctx context.Context, spec workers.Spec, o *Options) Result {
	result := Result{Name: c.name}
	begun := time.Now()
	s, err := start(ctx, spec, o)
	if err == nil {
		err = c.try(s)
		if text := s.close(); err != nil && text != "" {
			var why skip
			if !errors.As(err, &why) {
				err = fmt.Errorf("%w; the terminal said last: %s", err, text)
			}
		}
	}
	result.Took = time.Since(begun)
	var why skip
	if errors.As(err, &why) {
		result.Skipped = string(why)
		return result
	}
	result.Err = err
	return result
}
