package host

import (
	"context"
	"log/slog"
)

// A stageLog is where orders to a stage and its reports are noted.
type stageLog struct{ *slog.Logger }

// newStageLog is one that notes nothing unless l is for debug now.
func newStageLog(l *slog.Logger) stageLog {
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return stageLog{}
	}
	return stageLog{l}
}

// order logs an order. Of a worker's arguments and environment, which may be secret, it logs
// only the number.
func (l stageLog) order(o order) {
	switch {
	case l.Logger == nil:
	case o.Plan != nil:
		l.Debug("order", "order", o.Do, "args", len(o.Plan.Args), "env", len(o.Plan.Env))
	case o.Do == doSignal:
		l.Debug("order", "order", o.Do, "signal", o.Signal, "to", o.To.String())
	case o.Do == doMark:
		l.Debug("order", "order", o.Do, "mark", o.Mark)
	default:
		l.Debug("order", "order", o.Do)
	}
}

// report logs a report with its fields.
func (l stageLog) report(r report) {
	if l.Logger == nil {
		return
	}
	args := []any{"report", r.What}
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
