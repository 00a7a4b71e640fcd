package bench

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// BenchmarkRun compares session.Run with Submit and Wait. The target is 2 for 1+1, also with a writer
// that gets the text as it arrives. A run leaves no goroutine, and no memory but its events in the log.
func BenchmarkRun(b *testing.B) {
	for name, o := range map[string]*session.RunOptions{
		"plain": nil,
		"limit": {Timeout: time.Minute},
		"live":  {Stdout: io.Discard},
		"queue": {Queue: true},
	} {
		b.Run(name, func(b *testing.B) {
			s := openReady(b)
			before := runtime.NumGoroutine()
			var runs, turns []time.Duration
			run := func() time.Duration {
				start := time.Now()
				r, err := session.Run(b.Context(), s, "1+1", o)
				if err != nil || r.Value != "2" {
					b.Fatalf("got %+v, %v", r, err)
				}
				return time.Since(start)
			}
			for range 50 { // warm both
				run()
				runCode(b, s, "1+1")
			}
			b.ReportAllocs()
			for b.Loop() {
				for range 20 {
					start := time.Now()
					runCode(b, s, "1+1")
					turns = append(turns, time.Since(start))
				}
				for range 20 {
					runs = append(runs, run())
				}
			}
			b.ReportMetric(microseconds(medianDuration(runs)), "us/run")
			b.ReportMetric(microseconds(medianDuration(turns)), "us/turn")
			b.ReportMetric(float64(medianDuration(runs))/float64(medianDuration(turns)), "x-turn")
			b.ReportMetric(float64(runtime.NumGoroutine()-before), "goroutines")
		})
	}
}
