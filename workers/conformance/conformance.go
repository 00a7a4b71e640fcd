// Package conformance checks whether a program is a worker, using only the worker protocol. It
// starts the program on a terminal, exchanges raw frames with it, and examines the answers. It
// checks order, interrupts and exits, not the language itself.
//
//	for _, r := range conformance.Run(ctx, spec, &conformance.Options{Dialect: d}) {
//		fmt.Println(r.Name, r.Skipped, r.Err)
//	}
//
// # One worker for many checks
//
// A check that passes leaves its worker for the next one, unless the check ends the worker. With
// one worker for many checks, ipykernel takes 4.5 s instead of 10 s. The checks also find faults
// that an earlier turn leaves behind. A check that fails in a used worker is repeated in a new one.
// It fails in any case, and its error says whether a new worker passes.
//
// A new worker for each check was rejected: with a language that starts slowly, the checks took
// minutes. Concurrent checks were rejected, because they would disturb the waits of each other.
// Sharing without a repetition was rejected: a fault of an earlier check would count against a
// later promise.
//
// # Goroutines
//
//	name      started by   ends when                       owns
//	frames    start        the channel ends                receiving
//	terminal  start        the terminal has no writers     reading the terminal
//	reaper    start        the worker is reaped            the call to Wait
//
// Run kills every worker and waits for its end.
package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// Run checks the worker that spec starts, one promise after the other. A check that fails in a
// worker that has run other checks is repeated in a new worker. It fails in any case, but its
// error says whether a new worker passes. When ctx ends, the current check ends and no other
// starts. If spec itself is invalid, that error is the only result.
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
	s := newSession(ctx, spec, &options) // its worker is idle, or not started
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
