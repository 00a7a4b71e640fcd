package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// noteUse notes that a client uses the session. It returns an error if the idle timeout is just
// closing it.
func (o *openSession) noteUse() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isClosing {
		return session.Errorf(session.KindClosed, "session %q was just closed, because it was unused for %s", o.name, o.idleTimeout)
	}
	o.lastUse = time.Now()
	return nil
}

// startIdleTimer starts the timer that closes an unused session.
func (d *Daemon) startIdleTimer(e *openSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idleTimeout > 0 {
		e.idleTimer = time.AfterFunc(e.idleTimeout, func() { d.closeIfIdle(e) })
	}
}

// closeIfIdle closes a session that was unused for its idle timeout. Otherwise it sets the timer
// again.
func (d *Daemon) closeIfIdle(e *openSession) {
	inUse := d.isInUse(e)
	i, _ := e.session.Info(context.Background()) // inspects processes, so it is called without a lock
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openSessions[e.name] != e || d.draining {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if inUse {
		e.lastUse = time.Now()
	}
	if i.StateSince.After(e.lastUse) {
		e.lastUse = i.StateSince // a turn has ended since the last use
	}
	if left := e.idleTimeout - time.Since(e.lastUse); left > 0 {
		e.idleTimer.Reset(left)
		return
	}
	e.isClosing = true
	d.wg.Go(func() {
		d.log.Info("session closed", "session", e.name, "why", fmt.Sprintf("unused for %s", e.idleTimeout))
		_ = d.removeSession(context.Background(), e)
	})
}

// isInUse reports whether a session is active, or a client has a reader, a write lock, a call or a
// subscription.
func (d *Daemon) isInUse(e *openSession) bool {
	switch e.session.State() {
	case session.StateIdle, session.StateEnded:
	default:
		return true
	}
	if e.hasReader() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.currentLockLocked(e) != nil {
		return true
	}
	for _, l := range d.connections {
		if l.waitingCalls[e] > 0 {
			return true
		}
		for _, w := range l.subscriptions {
			if w.entry == e {
				return true
			}
		}
	}
	return false
}
