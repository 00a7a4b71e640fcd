package daemon_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// BenchmarkRun compares session.Run through a daemon with one call that starts a turn and waits for
// it. A short run is one call, too. With a writer it also subscribes to the events, and ends that.
func BenchmarkRun(b *testing.B) {
	r := startDaemon(b, nil)
	for name, o := range map[string]*session.RunOptions{"plain": nil, "live": {Stdout: io.Discard}, "queue": {Queue: true}} {
		b.Run(name, func(b *testing.B) {
			c := client.New(client.Socket(r.socket), nil)
			defer c.Close()
			if _, err := c.CreateSession(b.Context(), protocol.CreateParams{Name: name}); err != nil && session.KindOf(err) != session.KindExists {
				b.Fatal(err)
			}
			s := c.Session(name)
			var runs, turns []time.Duration
			for b.Loop() {
				for range 20 {
					start := time.Now()
					if _, err := c.StartTurn(b.Context(), protocol.StartParams{Session: name, Input: "result 2", WaitMS: processTimeout.Milliseconds()}); err != nil {
						b.Fatal(err)
					}
					turns = append(turns, time.Since(start))
				}
				for range 20 {
					start := time.Now()
					if r, err := session.Run(b.Context(), s, "result 2", o); err != nil || r.Value != "2" {
						b.Fatalf("got %+v, %v", r, err)
					}
					runs = append(runs, time.Since(start))
				}
			}
			slices.Sort(runs)
			slices.Sort(turns)
			run, turn := runs[len(runs)/2], turns[len(turns)/2]
			b.ReportMetric(float64(run.Nanoseconds())/1e3, "us/run")
			b.ReportMetric(float64(turn.Nanoseconds())/1e3, "us/turn")
			b.ReportMetric(float64(run)/float64(turn), "x-turn")
		})
	}
}
