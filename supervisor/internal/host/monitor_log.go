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
func (l monitorLog) logCommand(command monitorCommand) {
	switch {
	case l.Logger == nil:
	case command.Plan != nil:
		l.Debug("monitor command", "command", command.Kind, "args", len(command.Plan.Args), "env", len(command.Plan.Env))
	case command.Kind == commandSignal:
		l.Debug("monitor command", "command", command.Kind, "signal", command.Signal, "to", command.To.String())
	case command.Kind == commandWriteMarker:
		l.Debug("monitor command", "command", command.Kind, "marker", command.Marker)
	default:
		l.Debug("monitor command", "command", command.Kind)
	}
}

// logEvent logs an event with its fields.
func (l monitorLog) logEvent(event monitorEvent) {
	if l.Logger == nil {
		return
	}
	args := []any{"event", event.Kind}
	if event.PID != 0 {
		args = append(args, "worker_pid", event.PID)
	}
	if event.Step != "" {
		args = append(args, "step", event.Step)
	}
	if event.Errno != 0 {
		args = append(args, "errno", event.Errno)
	}
	if event.Exit != nil {
		args = append(args, "code", event.Exit.Code, "signal", event.Exit.Signal)
	}
	l.Debug("monitor event", args...)
}
