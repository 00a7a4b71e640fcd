package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// A place is where clients look for the daemon, which others may take away: logind
// removes the directory at the last logout, and tidy programs remove what looks old.
// The owner looks after it.
type place struct {
	d      *Daemon
	l      net.Listener
	ticker *time.Ticker
	look   <-chan time.Time // nil where a place cannot be taken away
	said   string           // what was last said about it
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

// isLost makes the place anew if it has to. It reports whether it is another daemon's,
// and this one has nobody left who would use it: none can come any more.
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
	case err.Error() != p.said: // once, not every time
		p.said = err.Error()
		p.d.log.Warn("no new client can reach the daemon; it goes on trying", "at", p.l.Addr(), "error", err)
	}
	if !errors.Is(err, ErrServed) {
		return false
	}
	p.served++
	return p.served > 1 && p.d.rpc.Activity().Connections == 0 && !p.d.isRunning()
}

// isRunning reports whether a turn runs, or a worker starts.
func (d *Daemon) isRunning() bool {
	for _, s := range d.sessions() {
		if state := s.State(); state.Active() && state != session.StateWaiting {
			return true
		}
	}
	return false
}
