package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// maxMoves bounds how often an address is made again in one look, because it was removed
// before it was watched.
const maxMoves = 3

// An address is where clients look for the daemon. Others may remove it: logind removes the
// directory at the last logout, and cleaning programs remove old files. The kernel tells the
// owner when they do. Where it cannot, the owner looks now and then, as it does while the
// address is lost.
type address struct {
	d       *Daemon
	l       net.Listener
	watch   *fileWatch    // nil where there is nothing to watch, or no means to do so
	removed chan struct{} // of the watch: a file may be gone; nil without one
	timer   *time.Timer   // for the next look
	look    <-chan time.Time
	said    string // the last problem that was logged
	warned  string // the last warning that was logged
	aside   string // the last reason to be elsewhere that was logged
	served  int    // how often in a row another daemon was there
	blind   bool   // the last attempt to watch failed
}

// keeper is a listener that knows the files by which it is found.
type keeper interface {
	Renewer
	files() []string
	Warning() string
	Aside() string
}

func (d *Daemon) newAddress(l net.Listener) *address {
	a := &address{d: d, l: l}
	if _, ok := l.(Renewer); !ok {
		return a
	}
	if _, ok := l.(keeper); ok {
		w, err := newFileWatch(&d.wg)
		if err == nil {
			a.watch, a.removed = w, w.changed
		} else if !errors.Is(err, errors.ErrUnsupported) {
			a.noteBlind(err)
		}
	}
	a.timer = time.NewTimer(0) // a file may be gone already
	a.look = a.timer.C
	return a
}

func (a *address) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.watch.close()
}

// isLost restores the address if necessary, and says when to look again. It returns true if
// another daemon has it and this one has no users left. New clients cannot reach this daemon
// then.
func (a *address) isLost() bool {
	lost, watched := a.check()
	if !watched {
		a.timer.Reset(lookPause)
	}
	return lost
}

// renew restores the address, and watches the files by which it is found then. watched is
// false where nobody tells when they are gone.
func (a *address) renew() (renewed, watched bool, err error) {
	for range maxMoves {
		var blind error
		if k, ok := a.l.(keeper); ok && a.watch != nil {
			blind = a.watch.on(k.files())
		}
		again, err := a.l.(Renewer).Renew()
		if err != nil || !again {
			if err == nil {
				a.noteBlind(blind)
			}
			return renewed || again, err == nil && a.watch != nil && blind == nil, err
		}
		renewed = true // and not watched yet
	}
	return renewed, false, nil
}

// noteBlind logs, once, why the address cannot be watched. nil means that it is.
func (a *address) noteBlind(why error) {
	if why != nil && !a.blind {
		a.d.log.Warn("the socket cannot be watched; the daemon looks after it now and then", "error", why)
	}
	a.blind = why != nil
}

// check restores the address, and logs what has changed. watched is that of renew.
func (a *address) check() (lost, watched bool) {
	renewed, watched, err := a.renew()
	if !errors.Is(err, ErrServed) {
		a.served = 0
	}
	switch {
	case err == nil:
		if renewed || a.said != "" {
			a.d.log.Warn("the socket or its lock was removed, and is made anew", "at", a.l.Addr())
		}
		a.said = ""
		a.warn()
		return false, watched
	case err.Error() != a.said: // log a problem once, not at every check
		a.said = err.Error()
		a.d.log.Warn("no new client can reach the daemon; it goes on trying", "at", a.l.Addr(), "error", err)
	}
	if !errors.Is(err, ErrServed) {
		return false, watched
	}
	a.served++
	return a.served > 1 && a.d.rpc.Activity().Connections == 0 && !a.d.isRunning(), watched
}

// warn logs, once, why the daemon is elsewhere, and why other clients may not find it.
func (a *address) warn() {
	k, ok := a.l.(keeper)
	if !ok {
		return
	}
	if why := k.Aside(); why != a.aside {
		a.d.log.Warn("the daemon serves at another socket", "at", a.l.Addr(), "why", why)
		a.aside = why
	}
	if why := k.Warning(); why != a.warned {
		if why != "" {
			a.d.log.Warn("other logins may not find the daemon", "error", why)
		}
		a.warned = why
	}
}

// isRunning reports whether a turn runs or a worker starts.
func (d *Daemon) isRunning() bool {
	for _, s := range d.sessions() {
		if state := s.State(); state.IsActive() && state != session.StateWaiting {
			return true
		}
	}
	return false
}
