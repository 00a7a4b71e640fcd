package supervisor

import (
	"errors"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// stop runs the shutdown escalation until the process has exited, and returns the name of the step
// that worked. grace bounds the whole escalation. busy means that code is running; it is
// interrupted at once. A step that fails never stops the escalation, and steps that the system
// lacks are skipped.
func (w *worker) stop(grace time.Duration, busy bool) (step string) {
	steps := []struct {
		name  string
		share int // of grace, in percent
		do    func() error
	}{
		{"shutdown", 50, func() error {
			_ = w.conn.Send(ipc.Shutdown{GraceMS: uint64(grace / 2 / time.Millisecond)})
			if busy {
				_ = w.proc.Signal(monitorproto.Interrupt, monitorproto.Foreground)
				_ = w.proc.Signal(monitorproto.Interrupt, monitorproto.Worker)
			}
			return nil
		}},
		{"channel", 10, w.conn.Close},
		{"SIGHUP", 10, func() error { return w.proc.Signal(monitorproto.Hangup, monitorproto.Group) }},
		{"SIGTERM", 10, func() error { return w.proc.Signal(monitorproto.Terminate, monitorproto.Group) }},
		{"SIGKILL", 20, func() error { w.proc.Kill(); return nil }},
	}
	for _, r := range steps {
		timer := time.NewTimer(grace * time.Duration(r.share) / 100) // closing the channel may take a second
		if errors.Is(r.do(), errors.ErrUnsupported) {
			timer.Stop()
			continue
		}
		step = r.name
		select {
		case <-w.proc.Exited():
			timer.Stop()
			<-w.done
			return step
		case <-timer.C:
		}
	}
	<-w.done // SIGKILL cannot be caught; watchProcess has its own bounds
	return step
}
