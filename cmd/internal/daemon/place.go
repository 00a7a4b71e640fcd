package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// A place is where clients look for the daemon. Others may remove it: logind removes the
// directory at the last logout, and cleaning programs remove old files. The owner checks it
// now and then.
type place struct {
	d      *Daemon
	l      net.Listener
	ticker *time.Ticker
	look   <-chan time.Time // nil where nobody can remove the place
	said   string           // the last problem that was logged
	served int              // how often in a row another daemon was there
}

func (d *Daemon) newPlace(l net.Listener) *place {
	p := &place{d: d, l: l}
	if _, ok := l.(Renewer); ok {
		p.ticker = time.NewTicker(lookPause)
		p.look = p.ticker.C
	}
	return p
}

func (p *place) stop() {
	if p.ticker != nil {
		p.ticker.Stop()
	}
}

// isLost restores the place if necessary. It returns true if another daemon has the place and
// this one has no users left. New clients cannot reach this daemon then.
func (p *place) isLost() bool {
	renewed, err := p.l.(Renewer).Renew()
	if !errors.Is(err, ErrServed) {
		p.served = 0
	}
	switch {
	case err == nil:
		if renewed || p.said != "" {
			p.d.log.Warn("the socket or its lock was removed, and is made anew", "at", p.l.Addr())
		}
		p.said = ""
		return false
	case err.Error() != p.said: // log a problem once, not at every check
		p.said = err.Error()
		p.d.log.Warn("no new client can reach the daemon; it goes on trying", "at", p.l.Addr(), "error", err)
	}
	if !errors.Is(err, ErrServed) {
		return false
	}
	p.served++
	return p.served > 1 && p.d.rpc.Activity().Connections == 0 && !p.d.isRunning()
}

// isRunning reports whether a turn runs or a worker starts.
func (d *Daemon) isRunning() bool {
	for _, s := range d.sessions() {
		if state := s.State(); state.Active() && state != session.StateWaiting {
			return true
		}
	}
	return false
}
