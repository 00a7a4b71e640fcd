package monitorproto

import (
	"context"
	"log/slog"
)

// A MonitorLog logs the commands to a monitor and the events from it.
type MonitorLog struct{ *slog.Logger }

// NewMonitorLog returns a log that writes nothing unless l is enabled for debug now.
func NewMonitorLog(l *slog.Logger) MonitorLog {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return MonitorLog{}
	}
	return MonitorLog{l}
}

// LogCommand logs a command. A worker's arguments and environment may be secret, so only their
// number is logged.
func (l MonitorLog) LogCommand(command MonitorCommand) {
	switch {
	case l.Logger == nil:
	case command.Worker != nil:
		l.Debug("monitor command", "command", command.Kind, "args", len(command.Worker.Args), "env", len(command.Worker.Env))
	case command.Kind == CommandSignal:
		l.Debug("monitor command", "command", command.Kind, "signal", command.Signal, "to", command.To.String())
	case command.Kind == CommandWriteMarker:
		l.Debug("monitor command", "command", command.Kind, "marker", command.Marker)
	default:
		l.Debug("monitor command", "command", command.Kind)
	}
}

// LogEvent logs an event with its fields.
func (l MonitorLog) LogEvent(event MonitorEvent) {
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
