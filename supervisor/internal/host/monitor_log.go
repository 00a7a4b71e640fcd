package host

import (
	"context"
	"log/slog"
)

// A monitorLog logs the commands to a monitor and the events from it.
type monitorLog struct{ *slog.Logger }

// newMonitorLog returns a log that writes nothing unless l is enabled for debug now.
func newMonitorLog(l *slog.Logger) monitorLog {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return monitorLog{}
	}
	return monitorLog{l}
}

// logCommand logs a command. A worker's arguments and environment may be secret, so only their
// number is logged.
func (l monitorLog) logCommand(o monitorCommand) {
	switch {
	case l.Logger == nil:
	case o.Plan != nil:
		l.Debug("monitor command", "command", o.Kind, "args", len(o.Plan.Args), "env", len(o.Plan.Env))
	case o.Kind == commandSignal:
		l.Debug("monitor command", "command", o.Kind, "signal", o.Signal, "to", o.To.String())
	case o.Kind == commandWriteMarker:
		l.Debug("monitor command", "command", o.Kind, "marker", o.Marker)
	default:
		l.Debug("monitor command", "command", o.Kind)
	}
}

// logEvent logs an event with its fields.
func (l monitorLog) logEvent(r monitorEvent) {
	if l.Logger == nil {
		return
	}
	args := []any{"event", r.Kind}
	if r.PID != 0 {
		args = append(args, "worker_pid", r.PID)
	}
	if r.Step != "" {
		args = append(args, "step", r.Step)
	}
	if r.Errno != 0 {
		args = append(args, "errno", r.Errno)
	}
	if r.Exit != nil {
		args = append(args, "code", r.Exit.Code, "signal", r.Exit.Signal)
	}
	l.Debug("monitor event", args...)
}
