package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
)

// minChangeInterval is the minimum time between two ticks of a session on one subscription.
const minChangeInterval = 100 * time.Millisecond

// sendChanges sends a tick with the state of a session at once, and again after each change. It
// returns nil after the tick that says the session is closed. Its only timer runs for
// minChangeInterval after a tick.
func (s *subscription) sendChanges(ctx context.Context, e *openSession) error {
	var sent session.Tick
	pause := time.NewTimer(minChangeInterval)
	defer pause.Stop()
	for {
		now, event, state := e.session.Tick()
		if sent.Session == "" || !now.Equal(sent) {
			if err := s.conn.NotifyWhenRoom(ctx, protocol.MethodChange, protocol.ChangeNotice{Subscription: s.id, Change: now}); err != nil {
				return err
			}
			sent = now
			if now.Closed {
				return nil
			}
			pause.Reset(minChangeInterval)
			select {
			case <-pause.C:
				continue // the changes in the meantime make one tick
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

// sendAllChanges sends the ticks of all sessions, including sessions that are opened later.
func (d *Daemon) sendAllChanges(ctx context.Context, w *subscription) error {
	var running sync.WaitGroup
	defer running.Wait()
	ticking := make(map[string]*changeSender)
	for {
		entries, opened := d.listSessions()
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
			t := &changeSender{entry: e, done: make(chan struct{})}
			ticking[e.name] = t
			running.Go(func() {
				defer close(t.done)
				if before != nil {
					<-before.done // the last tick of the previous session comes before the first tick of this one
				}
				_ = w.sendChanges(ctx, e)
			})
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A changeSender sends the ticks of one session to a subscription to all sessions.
type changeSender struct {
	entry *openSession
	done  chan struct{} // closed after its last tick
}

func (s *changeSender) isOver() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// listSessions returns the sessions, and a channel that is closed when another one is opened.
func (d *Daemon) listSessions() ([]*openSession, <-chan struct{}) {
	d.mu.Lock()
	if d.sessionAdded == nil {
		d.sessionAdded = make(chan struct{})
	}
	opened := d.sessionAdded
	d.mu.Unlock()
	return d.sortedSessions(), opened
}
