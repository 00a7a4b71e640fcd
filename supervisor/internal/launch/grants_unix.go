//go:build linux || darwin

package launch

import (
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// grantTimeout bounds the time of a grant, which normally takes less than a millisecond.
const grantTimeout = 5 * time.Second

// pendingGrants tracks the grants that the monitor has not answered yet.
type pendingGrants struct {
	mu        sync.Mutex
	lastID    uint64
	callbacks map[uint64]func(error) // called with the answer
}

func (g *pendingGrants) addGrant() (id uint64, answer chan error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.callbacks == nil {
		g.callbacks = map[uint64]func(error){}
	}
	g.lastID++
	answer = make(chan error, 1)
	g.callbacks[g.lastID] = func(err error) { answer <- err }
	return g.lastID, answer
}

func (g *pendingGrants) removeGrant(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.callbacks, id)
}

func (g *pendingGrants) handleAnswer(r *monitorproto.MonitorEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer, ok := g.callbacks[r.ID]
	if !ok {
		return
	}
	delete(g.callbacks, r.ID)
	if r.Step == "" {
		answer(nil)
	} else {
		answer(r.StartError())
	}
}

// answerLater arranges that take is called when the answer to a grant arrives. It returns false if
// the answer has already arrived.
func (g *pendingGrants) answerLater(id uint64, take func(error)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, open := g.callbacks[id]
	if open {
		g.callbacks[id] = func(err error) { go take(err) } // which may be slow
	}
	return open
}

func (m *monitorClient) permitCall(id uint64, ok bool) error {
	return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandAnswerCall, ID: id, OK: ok})
}

// forgetDenials counts as a signal, so that the next turn waits until the monitor has done it.
func (m *monitorClient) forgetDenials() error {
	return m.runCounted(func() error {
		return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandForgetDenials})
	})
}

// refreshSandbox also counts as a signal.
func (m *monitorClient) refreshSandbox() (notices []string, err error) {
	if m.sandboxPlan == nil {
		return nil, nil
	}
	changed, notices := m.sandboxPlan.TakeChanges()
	if changed == nil || !m.isConfined {
		return notices, nil
	}
	return notices, m.runCounted(func() error {
		return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandRefreshSandbox, Grant: changed})
	})
}

// protectNewSettings protects the files that git's settings refer to since they changed during a
// turn.
func (m *monitorClient) protectNewSettings() {
	if changed := m.sandboxPlan.TakeGitTargets(); changed != nil {
		_ = m.runCounted(func() error {
			return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandRefreshSandbox, Grant: changed})
		}) // the monitor is gone if it fails
	}
}

func (m *monitorClient) grantAccess(path string, read bool, is string, late func()) error {
	if !m.isConfined {
		return errNoSandbox
	}
	g, err := m.sandboxPlan.NewGrant(path, read, is)
	if g == nil {
		return err
	}
	id, answer := m.grants.addGrant()
	if err := m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandGrant, ID: id, Grant: g}); err != nil {
		m.grants.removeGrant(id)
		return err
	}
	timer := time.NewTimer(grantTimeout)
	defer timer.Stop()
	select {
	case err = <-answer:
	case <-timer.C:
		if m.grants.answerLater(id, func(err error) {
			if err == nil {
				m.sandboxPlan.RecordGrant(g)
				late()
			}
		}) {
			return ErrGrantPending
		}
		err = <-answer
	}
	if err == nil {
		m.sandboxPlan.RecordGrant(g)
	}
	return err
}
