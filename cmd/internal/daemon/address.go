package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// maxRenewals bounds how often an address is made again in one look, because it was removed
// before it was watched.
const maxRenewals = 3

// An addressWatcher is where clients look for the daemon. Others may remove it: logind removes the
// directory at the last logout, and cleaning programs remove old files. The kernel tells the
// owner when they do. Where it cannot, the owner looks now and then, as it does while the
// addressWatcher is lost.
type addressWatcher struct {
	daemon         *Daemon
	listener       net.Listener
	watch          *fileWatch    // nil where there is nothing to watch, or no means to do so
	removed        chan struct{} // of the watch: a file may be gone; nil without one
	timer          *time.Timer   // for the next look
	nextCheck      <-chan time.Time
	lastProblem    string // the last problem that was logged
	lastWarning    string // the last warning that was logged
	lastMoveReason string // the last reason to be elsewhere that was logged
	takenCount     int    // how often in a row another daemon was there
	unwatched      bool   // the last attempt to watch failed
}

// fileBackedListener is a listener that knows the files by which it is found.
type fileBackedListener interface {
	Renewer
	watchedFiles() []string
	Warning() string
	MoveReason() string
}

func (d *Daemon) newAddressWatcher(l net.Listener) *addressWatcher {
	a := &addressWatcher{daemon: d, listener: l}
	if _, ok := l.(Renewer); !ok {
		return a
	}
	if _, ok := l.(fileBackedListener); ok {
		w, err := newFileWatch(&d.wg)
		if err == nil {
			a.watch, a.removed = w, w.changed
		} else if !errors.Is(err, errors.ErrUnsupported) {
			a.logUnwatched(err)
		}
	}
	a.timer = time.NewTimer(0) // a file may be gone already
	a.nextCheck = a.timer.C
	return a
}

func (a *addressWatcher) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.watch.close()
}

// isLost restores the address if necessary, and says when to look again. It returns true if
// another daemon has it and this one has no users left. New clients cannot reach this daemon
// then.
func (a *addressWatcher) isLost() bool {
	lost, watched := a.restoreAndLog()
	if !watched {
		a.timer.Reset(addressCheckInterval)
	}
	return lost
}

// renewAndWatch restores the address, and watches the files by which it is found then. watched is
// false where nobody tells when they are gone.
func (a *addressWatcher) renewAndWatch() (renewed, watched bool, err error) {
	for range maxRenewals {
		var blind error
		if k, ok := a.listener.(fileBackedListener); ok && a.watch != nil {
			blind = a.watch.watchFiles(k.watchedFiles())
		}
		again, err := a.listener.(Renewer).Renew()
		if err != nil || !again {
			if err == nil {
				a.logUnwatched(blind)
			}
			return renewed || again, err == nil && a.watch != nil && blind == nil, err
		}
		renewed = true // and not watched yet
	}
	return renewed, false, nil
}

// logUnwatched logs, once, why the address cannot be watched. nil means that it is.
func (a *addressWatcher) logUnwatched(why error) {
	if why != nil && !a.unwatched {
		a.daemon.log.Warn("the socket cannot be watched; the daemon looks after it now and then", "error", why)
	}
	a.unwatched = why != nil
}

// restoreAndLog restores the address, and logs what has changed. watched is that of renew.
func (a *addressWatcher) restoreAndLog() (lost, watched bool) {
	renewed, watched, err := a.renewAndWatch()
	if !errors.Is(err, ErrServed) {
		a.takenCount = 0
	}
	switch {
	case err == nil:
		if renewed || a.lastProblem != "" {
			a.daemon.log.Warn("the socket or its lock was removed, and is made anew", "at", a.listener.Addr())
		}
		a.lastProblem = ""
		a.logWarnings()
		return false, watched
	case err.Error() != a.lastProblem: // log a problem once, not at every check
		a.lastProblem = err.Error()
		a.daemon.log.Warn("no new client can reach the daemon; it goes on trying", "at", a.listener.Addr(), "error", err)
	}
	if !errors.Is(err, ErrServed) {
		return false, watched
	}
	a.takenCount++
	return a.takenCount > 1 && a.daemon.rpc.Activity().Connections == 0 && !a.daemon.isRunning(), watched
}

// logWarnings logs, once, why the daemon is elsewhere, and why other clients may not find it.
func (a *addressWatcher) logWarnings() {
	k, ok := a.listener.(fileBackedListener)
	if !ok {
		return
	}
	if why := k.MoveReason(); why != a.lastMoveReason {
		a.daemon.log.Warn("the daemon serves at another socket", "at", a.listener.Addr(), "why", why)
		a.lastMoveReason = why
	}
	if why := k.Warning(); why != a.lastWarning {
		if why != "" {
			a.daemon.log.Warn("other logins may not find the daemon", "error", why)
		}
		a.lastWarning = why
	}
}

// isRunning reports whether a turn runs or a worker starts.
func (d *Daemon) isRunning() bool {
	for _, s := range d.supervisorSessions() {
		if state := s.State(); state.IsActive() && state != session.StateWaiting {
			return true
		}
	}
	return false
}
