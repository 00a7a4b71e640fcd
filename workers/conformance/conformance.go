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
// A check whose promise is kept leaves its worker for the next one, unless it ends it. Run kills
// every worker, and waits for its end.
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
	Name     string // the promise, in words
	Skipped  string // why it does not apply; "" when it was tried
	Err      error  // how it is broken; nil when it is kept or was skipped
	Duration time.Duration
}

// A skipError is the error of a check that does not apply; it says why.
type skipError string

func (s skipError) Error() string { return string(s) }

// Run checks the worker that spec starts, one promise after the other. A promise that is broken
// in a worker that has run other checks is tried once more in a new one; it is broken in any case,
// and its error tells the difference. When ctx ends, the current check ends and no other begins.
// If spec itself is wrong, that error is the only result.
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
	s := newSession(ctx, spec, &options) // its worker is idle, or it has none
	try := func(c check) Result {
		r := c.runOn(s)
		if !s.idle {
			s.close()
			s = newSession(ctx, spec, &options)
		}
		return r
	}
	for _, c := range allChecks() {
		if ctx.Err() != nil {
			break
		}
		used := s.idle
		r := try(c)
		if r.Err != nil && used && ctx.Err() == nil && try(c).Err == nil {
			r.Err = fmt.Errorf("only in a worker that has run other checks: %w", r.Err)
		}
		results = append(results, r)
	}
	s.close()
	return results
}

// A check is one promise of the protocol and how to try it.
type check struct {
	name string
	test func(*workerSession) error
}

func (c check) runOn(s *workerSession) Result {
	result := Result{Name: c.name}
	begun := time.Now()
	s.options.Logger.Info("a check begins", "check", c.name)
	err := c.test(s)
	result.Duration = time.Since(begun)
	var why skipError
	if errors.As(err, &why) {
		result.Skipped = string(why)
		return result
	}
	if err != nil {
		if text := s.close(); text != "" {
			err = fmt.Errorf("%w; the terminal said last: %s", err, text)
		}
	}
	result.Err = err
	return result
}
