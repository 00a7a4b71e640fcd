package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// maxRenewals bounds how often one check restores an address that disappears again before its watch starts.
const maxRenewals = 3

// An addressWatcher restores the files by which clients find the daemon. Other programs may remove
// them: logind removes the directory at the last logout, and cleanup programs remove old files. The
// kernel reports this where it can. Elsewhere, and while the address is lost, the owner checks at
// intervals.
type addressWatcher struct {
	daemon         *Daemon
	listener       net.Listener
	watch          *fileWatch    // nil where there are no files, or the system cannot watch them
	removed        chan struct{} // receives when a file may be gone; nil without a watch
	timer          *time.Timer   // for the next check
	nextCheck      <-chan time.Time
	lastProblem    string // the last problem that was logged
	lastWarning    string // the last warning that was logged
	lastMoveReason string // the last reason for a move that was logged
	takenCount     int    // consecutive checks that found another daemon
	unwatched      bool   // the files could not be watched at the last attempt
}

// A fileBackedListener is a Renewer that names the files by which clients find it.
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
	a.timer = time.NewTimer(0) // check at once: a file may be gone already
	a.nextCheck = a.timer.C
	return a
}

func (a *addressWatcher) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.watch.close()
}

// restoreAddress restores the address if necessary, and schedules the next check. It returns true if
// another daemon has the address and this one has no users left, since no new client can reach it
// then.
func (a *addressWatcher) restoreAddress() bool {
	lost, watched := a.restoreAndLog()
	if !watched {
		a.timer.Reset(addressCheckInterval)
	}
	return lost
}

// renewAndWatch restores the address, and watches its files. watched is false where the system will
// not report their removal.
func (a *addressWatcher) renewAndWatch() (renewed, watched bool, err error) {
	for range maxRenewals {
		var watchErr error
		if k, ok := a.listener.(fileBackedListener); ok && a.watch != nil {
			watchErr = a.watch.watchFiles(k.watchedFiles())
		}
		again, err := a.listener.(Renewer).Renew()
		if err != nil || !again {
			if err == nil {
				a.logUnwatched(watchErr)
			}
			return renewed || again, err == nil && a.watch != nil && watchErr == nil, err
		}
		renewed = true // the new files are not watched yet
	}
	return renewed, false, nil
}

// logUnwatched logs, once, why the files cannot be watched. nil means that they are.
func (a *addressWatcher) logUnwatched(why error) {
	if why != nil && !a.unwatched {
		a.daemon.log.Warn("cannot watch socket; checking it at intervals", "error", why)
	}
	a.unwatched = why != nil
}

// restoreAndLog restores the address, and logs what has changed. watched is the result of
// renewAndWatch.
func (a *addressWatcher) restoreAndLog() (lost, watched bool) {
	renewed, watched, err := a.renewAndWatch()
	if !errors.Is(err, ErrServed) {
		a.takenCount = 0
	}
	switch {
	case err == nil:
		if renewed || a.lastProblem != "" {
			a.daemon.log.Warn("socket or lock removed; created again", "at", a.listener.Addr())
		}
		a.lastProblem = ""
		a.logWarnings()
		return false, watched
	case err.Error() != a.lastProblem: // log a problem once, not at every check
		a.lastProblem = err.Error()
		a.daemon.log.Warn("daemon unreachable for new clients; retrying", "at", a.listener.Addr(), "error", err)
	}
	if !errors.Is(err, ErrServed) {
		return false, watched
	}
	a.takenCount++
	return a.takenCount > 1 && a.daemon.rpc.Activity().Connections == 0 && !a.daemon.isRunning(), watched
}

// logWarnings logs, once each, why the daemon has moved, and why other clients may not find it.
func (a *addressWatcher) logWarnings() {
	k, ok := a.listener.(fileBackedListener)
	if !ok {
		return
	}
	if why := k.MoveReason(); why != a.lastMoveReason {
		a.daemon.log.Warn("daemon moved to another socket", "at", a.listener.Addr(), "why", why)
		a.lastMoveReason = why
	}
	if why := k.Warning(); why != a.lastWarning {
		if why != "" {
			a.daemon.log.Warn("daemon may not be found from other logins", "error", why)
		}
		a.lastWarning = why
	}
}

// isRunning reports whether a turn runs or a worker is starting.
func (d *Daemon) isRunning() bool {
	for _, s := range d.supervisorSessions() {
		if state := s.State(); state.IsActive() && state != session.StateWaiting {
			return true
		}
	}
	return false
}
