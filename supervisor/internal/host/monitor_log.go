package host

import (
	"context"
	"log/slog"
)

// A monitorLog is where orders to a stage and its reports are noted.
type monitorLog struct{ *slog.Logger }

// newMonitorLog is one that notes nothing unless l is for debug now.
func newMonitorLog(l *slog.Logger) monitorLog {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return monitorLog{}
	}
	return monitorLog{l}
}

// logCommand logs an order. Of a worker's arguments and environment, which may be secret, it logs
// only the number.
func (l monitorLog) logCommand(o monitorCommand) {
	switch {
	case l.Logger == nil:
	case o.Plan != nil:
		l.Debug("order", "order", o.Kind, "args", len(o.Plan.Args), "env", len(o.Plan.Env))
	case o.Kind == commandSignal:
		l.Debug("order", "order", o.Kind, "signal", o.Signal, "to", o.To.String())
	case o.Kind == commandWriteMarker:
		l.Debug("order", "order", o.Kind, "mark", o.Marker)
	default:
		l.Debug("order", "order", o.Kind)
	}
}

// logEvent logs a report with its fields.
func (l monitorLog) logEvent(r monitorEvent) {
	if l.Logger == nil {
		return
	}
	args := []any{"report", r.Kind}
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
	l.Debug("report", args...)
}
