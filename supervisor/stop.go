package supervisor

import (
	"errors"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
)

// stop climbs the stop ladder until the process has ended, and returns the rung that worked.
// grace is for the whole climb. busy means that code is running; it is interrupted at once. A
// rung that fails never ends the climb; a rung that the system does not have is left out.
func (w *worker) stop(grace time.Duration, busy bool) (rung string) {
	rungs := []struct {
		name  string
		share int // of grace, in percent
		do    func() error
	}{
		{"shutdown", 50, func() error {
			_ = w.conn.Send(ipc.Shutdown{GraceMS: uint64(grace / 2 / time.Millisecond)})
			if busy {
				_ = w.proc.Signal(host.Interrupt, host.Foreground)
				_ = w.proc.Signal(host.Interrupt, host.Worker)
			}
			return nil
		}},
		{"channel", 10, w.conn.Close},
		{"SIGHUP", 10, func() error { return w.proc.Signal(host.Hangup, host.Group) }},
		{"SIGTERM", 10, func() error { return w.proc.Signal(host.Terminate, host.Group) }},
		{"SIGKILL", 20, func() error { w.proc.Kill(); return nil }},
	}
	for _, r := range rungs {
		timer := time.NewTimer(grace * time.Duration(r.share) / 100) // closing the channel may take a second
		if errors.Is(r.do(), errors.ErrUnsupported) {
			timer.Stop()
			continue
		}
		rung = r.name
		select {
		case <-w.proc.Exited():
			timer.Stop()
			<-w.done
			return rung
		case <-timer.C:
		}
	}
	<-w.done // SIGKILL cannot be refused; watch has its own bounds
	return rung
}
