// Package rawworker drives a worker by raw frames on a real terminal, without a supervisor. Tests
// use it to check what a worker itself guarantees. It merges frames and text into their true order
// by the sync markers, and checks nothing else.
//
//	w := rawworker.StartWorker(t, spec, rawworker.WorkerOptions{})
//	w.RunCode("1+1").WantOutput(t, "2\n")
//
// Two goroutines of each RawWorker read its channel and its terminal, and pass on the bytes; they end
// with the test. Everything else happens in the test's goroutine.
package rawworker
