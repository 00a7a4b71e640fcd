// Package conformance checks, by the worker protocol alone, that a program is a worker:
// it starts the program on a terminal, exchanges raw frames with it, and examines the
// answers. It checks order, interrupts and ends, not the language itself.
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
// Each check starts its own workers, kills them, and waits for their end.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// Options for Run; nil means the defaults.
type Options struct {
	// Dialect is the worker's language. A check is skipped if its snippet is missing.
	Dialect Dialect

	// Timeout bounds each step that waits for the worker. A worker that conforms never
	// reaches it. 0 means 10 s.
	Timeout time.Duration

	// Logger gets each check and, at debug, every frame: its fields and sizes, never its
	// contents. nil logs nothing.
	Logger *slog.Logger
}

// A Result is the outcome of one check.
type Result struct {
	Name    string // the promise, in words
	Skipped string // why it does not apply; "" when it was tried
	Err     error  // how it is broken; nil when it is kept or was skipped
	Took    time.Duration
}

// A skip is the error of a check that does not apply; it says why.
type skip string

func (s skip) Error() string { return string(s) }

// Run checks the worker that spec starts, one promise after the other. When ctx ends, the
// current check ends and no other begins. If spec itself is wrong, that error is the only
// result.
func Run(ctx context.Context, spec workers.Spec, o *Options) []Result {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
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
	o.Logger.Info("a check begins", "check", c.name)
	s := newSession(ctx, spec, o)
	err := c.try(s)
	text := s.close()
	result.Took = time.Since(begun)
	var why skip
	switch {
	case errors.As(err, &why):
		result.Skipped = string(why)
	case err != nil && text != "":
		result.Err = fmt.Errorf("%w; the terminal said last: %s", err, text)
	default:
		result.Err = err
	}
	return result
}
