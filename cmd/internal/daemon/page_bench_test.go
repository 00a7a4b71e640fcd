package daemon_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// followPage reads like an open page until ctx ends: at each tick, it reads the newest 50 turns and
// events that it has not read yet. It closes open after the first read.
func followPage(ctx context.Context, b *testing.B, c *client.Client, open chan<- struct{}) {
	w, err := c.SubscribeChanges(ctx, "main")
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = w.Cancel(context.WithoutCancel(ctx)) }()
	s := c.Session("main")
	var end timeline.Seq
	for {
		if _, err := w.Next(ctx); err != nil {
			return
		}
		o, err := s.TurnSummaries(ctx, session.TurnSummariesQuery{After: end, Backward: true, Limit: 50})
		if err != nil {
			return
		}
		if _, err := s.Read(ctx, session.ReadQuery{After: end, Backward: true, Limit: 50}); err != nil {
			return
		}
		if end == 0 {
			close(open)
		}
		end = o.End
	}
}

// This benchmark compares a turn in a session that a page shows with the same turn without a page.
// It reports the median of alternating bursts, so that the load of the machine affects both.
func BenchmarkATurnThatAPageShows(b *testing.B) {
	r := startDaemon(b, nil)
	c, page := r.dial(), r.dial()
	if _, err := c.CreateSession(b.Context(), protocol.CreateParams{Name: "main"}); err != nil {
		b.Fatal(err)
	}
	const turns = 300
	burst := func() time.Duration {
		begun := time.Now()
		for range turns {
			if _, err := c.StartTurn(b.Context(), protocol.StartParams{Session: "main", Input: "print hello", WaitMS: processTimeout.Milliseconds()}); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	burst()
	var alone time.Duration
	var ratios []float64
	for b.Loop() {
		unseen := burst()
		alone += unseen
		ctx, cancel := context.WithCancel(b.Context())
		open, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			followPage(ctx, b, page, open)
		}()
		<-open
		ratios = append(ratios, float64(burst())/float64(unseen))
		cancel()
		<-over
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "×alone")
	b.ReportMetric(float64(alone.Microseconds())/float64(b.N)/turns, "µs/turn")
}
