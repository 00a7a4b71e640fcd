package transportcmd

import (
	"os"
	"sync"
	"time"
)

// A deadline calls expire when its time has passed. Pipes have no deadlines on some systems, so
// this one ends the connection instead.
type deadline struct {
	expire func()

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	over  bool        // guarded by mu
}

func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.over {
		return os.ErrDeadlineExceeded
	}
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			d.mu.Lock()
			d.over = true
			d.mu.Unlock()
			d.expire()
		})
	}
	return nil
}

func (d *deadline) stop() { _ = d.set(time.Time{}) }

func (d *deadline) isOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}
