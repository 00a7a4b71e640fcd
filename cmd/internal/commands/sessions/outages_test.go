package sessions

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestWithOutages(t *testing.T) {
	t.Parallel()

	// A user leaves with Ctrl-D while nothing happens: the terminal waits for the end of the events.
	t.Run("ends with its context while no event arrives", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		silent := make(chan struct{}) // closed when the events are over
		events := func(ctx context.Context) iter.Seq2[timeline.Event, error] {
			return func(yield func(timeline.Event, error) bool) {
				defer close(silent)
				if yield(timeline.Event{Seq: 1}, nil) {
					<-ctx.Done()
					yield(timeline.Event{}, ctx.Err())
				}
			}
		}
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range withOutages(ctx, make(chan client.Outage), "gpu", events) {
				last = err
				stop()
			}
			ended <- last
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the last error is %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		<-silent
	})

	t.Run("reports an outage between the events", func(t *testing.T) {
		t.Parallel()
		cuts := make(chan client.Outage, 1)
		from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		cuts <- client.Outage{From: from, To: from.Add(12 * time.Second)}
		closed := errors.New("closed")
		told := make(chan struct{})
		events := func(context.Context) iter.Seq2[timeline.Event, error] {
			return func(yield func(timeline.Event, error) bool) {
				<-told
				yield(timeline.Event{}, closed)
			}
		}
		var last error
		for e, err := range withOutages(t.Context(), cuts, "gpu", events) {
			if n, ok := e.Body.(timeline.Notice); ok {
				if n.Message != "the connection to gpu is back after 12s" {
					t.Errorf("it says %q", n.Message)
				}
				close(told)
			}
			last = err
		}
		if !errors.Is(last, closed) {
			t.Errorf("the last error is %v", last)
		}
	})
}
