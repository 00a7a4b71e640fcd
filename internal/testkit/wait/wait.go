// Package wait lets a test wait for a condition that no event reports, by checking again and again.
// It starts no goroutines.
package wait

import (
	"testing"
	"time"
)

// Bound is the longest wait. A test that comes near it has failed.
const Bound = 2 * time.Minute

// interval is the time between two checks of a fact. Some checks read all processes or start one, and
// must leave the processors to what is tested.
const interval = 5 * time.Millisecond

// Until polls a fact until it holds, and fails the test if it does not within Bound.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Bound, holds) {
		t.Fatalf("within %s it does not come true that %s", Bound, what)
	}
}

// Within polls a fact until it holds, and reports whether it did within the time.
func Within(bound time.Duration, holds func() bool) bool {
	again := time.NewTicker(interval)
	defer again.Stop()
	late := time.After(bound)
	for !holds() {
		select {
		case <-again.C:
		case <-late:
			return false
		}
	}
	return true
}

// Spin waits for a time that is too short for a timer.
func Spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}
