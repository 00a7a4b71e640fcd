// Package rawworker drives a worker by raw frames on a real terminal, without a
// supervisor: for the tests of what a worker itself promises. It puts frames and
// text into their true order by the markers of the fence, and judges nothing.
//
//	w := rawworker.StartWorker(t, spec, rawworker.WorkerOptions{})
//	w.Run("1+1").Wants(t, "2\n")
//
// Two goroutines of each Worker read its channel and its terminal, and hand over
// bytes; they end with the test. All else is the test's goroutine's.
package rawworker
