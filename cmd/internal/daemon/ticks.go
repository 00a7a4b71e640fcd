package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// tickPause is the least time between two ticks of a session on one subscription.
const tickPause = 100 * time.Millisecond

// tick sends how a session is, first at once, and then when that has changed. It has a timer only
// for tickPause after a tick. It returns nil once it has said that the session is closed.
func (w *watch) tick(ctx context.Context, e *entry) error {
	var sent session.Tick
	pause := time.NewTimer(tickPause)
	defer pause.Stop()
	for {
		now, event, state := e.session.Tick()
		if sent.Session == "" || !now.Equal(sent) {
			if err := w.conn.NotifyWhenRoom(ctx, client.MethodTick, client.Tick{Subscription: w.id, Tick: now}); err != nil {
				return err
			}
			sent = now
			if now.Closed {
				return nil
			}
			pause.Reset(tickPause)
			select {
			case <-pause.C:
				continue // what came meanwhile is one tick
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case <-event:
		case <-state:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tickAll sends the ticks of all sessions, also of those that are opened later.
func (d *Daemon) tickAll(ctx context.Context, w *watch) error {
	var running sync.WaitGroup
	defer running.Wait()
	ticking := make(map[string]*ticker)
	for {
		entries, opened := d.listing()
		for name, t := range ticking {
			if t.isOver() && !slices.Contains(entries, t.entry) {
				delete(ticking, name)
			}
		}
		for _, e := range entries {
			before := ticking[e.name]
			if before != nil && before.entry == e {
				continue
			}
			t := &ticker{entry: e, over: make(chan struct{})}
			ticking[e.name] = t
			running.Go(func() {
				defer close(t.over)
				if before != nil {
					<-before.over // its last tick comes before the first of this one
				}
				_ = w.tick(ctx, e)
			})
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A ticker sends the ticks of one session to a subscription for all.
type ticker struct {
	entry *entry
	over  chan struct{} // closed when it has sent its last
}

func (t *ticker) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// listing returns the sessions, and a channel that is closed when another is opened.
func (d *Daemon) listing() ([]*entry, <-chan struct{}) {
	d.mu.Lock()
	if d.listed == nil {
		d.listed = make(chan struct{})
	}
	opened := d.listed
	d.mu.Unlock()
	return d.all(), opened
}
