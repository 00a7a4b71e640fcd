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
// subscription, or gives functions.
func (d *Daemon) isInUse(e *openSession) bool {
	switch e.session.State() {
	case session.StateIdle, session.StateEnded:
	default:
		return true
	}
	if e.hasReader() || e.hasFunctions() {
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

// idleChecks returns a channel that says when to test whether the daemon has been idle for long
// enough, until stop.
func (d *Daemon) idleChecks() (checks <-chan time.Time, stop func()) {
	switch {
	case d.options.clock != nil:
		return d.options.clock.checks, func() {}
	case d.options.DaemonIdleTimeout == 0:
		return nil, func() {}
	}
	ticker := time.NewTicker(max(d.options.DaemonIdleTimeout/4, time.Millisecond))
	return ticker.C, ticker.Stop
}

// idleFor returns how long the daemon has been unused and idle. now is the time before the check; a
// use during the check is found by the next one.
func (d *Daemon) idleFor(now time.Time) time.Duration {
	if d.isBusy() {
		d.noteUseAt(now) // idle time starts when the activity ends
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Sub(d.lastUse)
}

// isBusy reports whether a session is being opened or is active, or has a reader, a subscription or
// functions of a connected client.
func (d *Daemon) isBusy() bool {
	d.mu.Lock()
	opening := len(d.opening) > 0
	d.mu.Unlock()
	if opening {
		return true
	}
	for _, e := range d.sortedSessions() {
		if e.hasReader() || e.hasFunctions() {
			return true
		}
	}
	for _, s := range d.supervisorSessions() {
		i, _ := s.Info(context.Background())
		switch i.State {
		case session.StatePreparing, session.StateRunning, session.StateStarting, session.StateWaiting:
			return true // a user may take long to answer
		}
		d.noteUseAt(i.StateSince) // a turn may have ended since the last check
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.subscriptions {
		if w.entry != nil && !d.isSessionClosedLocked(w) { // a paused subscription outlives its session
			return true
		}
	}
	return false
}

// noteUse notes that a client uses the daemon.
func (d *Daemon) noteUse() { d.noteUseAt(d.currentTime()) }

func (d *Daemon) noteUseAt(then time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if then.After(d.lastUse) {
		d.lastUse = then
	}
}
