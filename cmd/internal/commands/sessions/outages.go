package sessions

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxOutages bounds the outage reports that wait to be shown. Further ones are dropped.
const maxOutages = 8

// outagesOf returns the outage reports of a remote connection: each time it goes down or comes
// back.
func outagesOf(link *client.Client) <-chan client.Outage {
	if !link.IsRemote() {
		return nil
	}
	cuts := make(chan client.Outage, maxOutages)
	link.OnOutage(func(o client.Outage) {
		select {
		case cuts <- o:
		default:
		}
	})
	return cuts
}

// outageText describes an outage of the connection to a remote.
func outageText(remote string, o client.Outage) string {
	if o.To.IsZero() {
		return fmt.Sprintf("the connection to %s has been down since %s; the session goes on there, and is shown again when it is back", remote, o.From.Format(time.TimeOnly))
	}
	return fmt.Sprintf("the connection to %s is back after %s", remote, o.To.Sub(o.From).Round(100*time.Millisecond))
}

// withOutages adds the outage reports of a connection to events, as notices.
func withOutages(ctx context.Context, cuts <-chan client.Outage, remote string, events func(context.Context) iter.Seq2[timeline.Event, error]) iter.Seq2[timeline.Event, error] {
	if cuts == nil {
		return events(ctx)
	}
	type pair struct {
		e   timeline.Event
		err error
	}
	return func(yield func(timeline.Event, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		arrived := make(chan pair)
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for e, err := range events(ctx) {
				select {
				case arrived <- pair{e, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() {
			stop()
			<-finished
		}()
		for {
			var p pair
			select {
			case p = <-arrived:
			case <-finished:
				if ctx.Err() != nil {
					yield(timeline.Event{}, ctx.Err())
				}
				return
			case o := <-cuts:
				p.e.Body = timeline.Notice{Message: outageText(remote, o)}
			}
			if !yield(p.e, p.err) || p.err != nil {
				return
			}
		}
	}
}
