package conformance

import (
	"errors"
	"fmt"
	"time"
)

// A check is one promise of the protocol with the function that tests it.
type check struct {
	name string
	test func(*workerSession) error
}

func (c check) runOn(s *workerSession) Result {
	result := Result{Name: c.name}
	started := time.Now()
	s.options.Logger.Info("check started", "check", c.name)
	err := c.test(s)
	result.Duration = time.Since(started)
	var why skipError
	if errors.As(err, &why) {
		result.Skipped = string(why)
		return result
	}
	if err != nil {
		if text := s.close(); text != "" {
			err = fmt.Errorf("%w; last terminal output: %s", err, text)
		}
	}
	result.Err = err
	return result
}

// A Result is the outcome of one check.
type Result struct {
	Name     string // the checked promise
	Skipped  string // why the check does not apply; "" if it was run
	Err      error  // how the promise is broken; nil if the check passed or was skipped
	Duration time.Duration
}

// A skipError says why a check does not apply.
type skipError string

func (s skipError) Error() string { return string(s) }
