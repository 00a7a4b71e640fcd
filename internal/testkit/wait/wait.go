// Package wait lets a test wait for a condition that nothing announces, by checking it repeatedly.
// It starts no goroutines.
package wait

import (
	"testing"
	"time"
)

// Bound is the longest wait. A test that comes close to it has failed.
const Bound = 2 * time.Minute

// interval is the time between two checks of a condition. Some checks read all processes or start
// one, and must leave CPU time to the tested code.
const interval = 5 * time.Millisecond

// Until polls a condition until it holds. It fails the test if the condition does not hold within
// Bound.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Bound, holds) {
		t.Fatalf("within %s it does not come true that %s", Bound, what)
	}
}

// Within polls a condition until it holds, and reports whether it held within the time.
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
