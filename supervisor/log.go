package supervisor

import (
	"context"
	"log/slog"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// workerLog returns a logger with the attributes of one worker.
func (s *Session) workerLog(generation uint64) *slog.Logger {
	return s.o.Logger.With("session", s.Name(), "generation", generation)
}

// logCall returns a function that passes on the result of a call and logs an error.
func (s *Session) logCall(call, author string) func(turn uint64, err error) (uint64, error) {
	return func(turn uint64, err error) (uint64, error) {
		if err != nil {
			s.o.Logger.Info("request refused", "session", s.Name(), "call", call, "by", author, "kind", session.KindOf(err))
		}
		return turn, err
	}
}

// logInterrupt returns a function that passes on the result of an interrupt and logs it.
func (s *Session) logInterrupt(turn uint64, author string) func(session.InterruptResult, error) (session.InterruptResult, error) {
	return func(result session.InterruptResult, err error) (session.InterruptResult, error) {
		s.o.Logger.Info("interrupt requested", "session", s.Name(), "turn", turn, "by", author, "result", result)
		return result, err
	}
}

// logStartFailure logs why the worker did not start. It logs only the first line; a tool's output
// follows it.
func logStartFailure(log *slog.Logger, err error) {
	why, _, _ := strings.Cut(err.Error(), "\n")
	log.Warn("worker start failed", "why", why)
}

// logWorkerEnd logs the end of a worker, as a warning unless it was requested.
func logWorkerEnd(log *slog.Logger, end timeline.WorkerExited) {
	level := slog.LevelWarn
	if end.Clean {
		level = slog.LevelInfo
	}
	args := []any{"why", end.Reason, "code", end.ExitCode, "signal", end.Signal}
	if end.NeverReady {
		args = append(args, "said", end.Message) // no user code has run
	}
	log.Log(context.Background(), level, "worker exited", args...)
}
