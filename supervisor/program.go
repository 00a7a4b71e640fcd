package supervisor

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	stderrTailBytes  = 4 << 10                // of a program's standard error that are kept
	programStopGrace = time.Second            // for a program to exit once its pipes are closed,
	programTermGrace = 500 * time.Millisecond // and again after SIGTERM
)

// A Program is a helper program that is not a worker, such as a tool server. The monitor starts it
// like a worker, so no process that it starts is left behind.
type Program struct {
	Path   string   // absolute
	Args   []string // without the program's own name
	Env    []string // the complete environment
	Dir    string   // "" means the caller's directory
	Logger *slog.Logger
}

// A RunningProgram is a Program that was started. Reads come from its standard output, and writes
// go to its standard input. Any goroutine may call its methods.
type RunningProgram struct {
	io.ReadWriteCloser // the pipes; Close of the RunningProgram hides theirs
	process            *launch.WorkerProcess
	drained            chan struct{} // closed when all of its standard error has been read

	mu         sync.Mutex
	stderrTail []byte // the end of its standard error
}

// StartProgram starts a program. On Windows it needs [MonitorMain]. On other systems without
// MonitorMain, processes that the program starts may be left behind.
func StartProgram(p *Program) (*RunningProgram, error) {
	process, err := launch.Start(&launch.StartConfig{Path: p.Path, Args: p.Args, Env: p.Env, Dir: p.Dir, ChannelOnStdio: true, Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	r := &RunningProgram{ReadWriteCloser: process.Channel(), process: process, drained: make(chan struct{})}
	go r.readStderr() // ends with the terminal
	return r, nil
}

// readStderr collects the end of the program's standard error.
func (r *RunningProgram) readStderr() {
	defer close(r.drained)
	part := make([]byte, stderrTailBytes)
	for {
		var end error
		err := r.process.Terminal().AwaitOutput(func() bool {
			n := 0
			n, end = r.process.Terminal().TryRead(part)
			r.mu.Lock()
			r.stderrTail = append(r.stderrTail, part[:n]...)
			if more := len(r.stderrTail) - stderrTailBytes; more > 0 {
				r.stderrTail = append(r.stderrTail[:0], r.stderrTail[more:]...)
			}
			r.mu.Unlock()
			return n > 0 || end != nil
		})
		if err != nil || end != nil {
			return
		}
	}
}

// StderrSummary returns the end of the program's standard error as plain text. Once the program has
// exited, it also says how.
func (r *RunningProgram) StderrSummary() string {
	r.mu.Lock()
	tail := string(bytes.TrimSpace([]byte(timeline.TerminalText(string(r.stderrTail)))))
	r.mu.Unlock()
	select {
	case <-r.process.Exited():
	default:
		return tail
	}
	ended := "it ended"
	if e := r.process.Exit(); e.Signal != "" {
		ended = "it was ended by " + e.Signal
	} else {
		ended += fmt.Sprintf(" with status %d", e.Code)
	}
	if tail == "" {
		return ended
	}
	return ended + ": " + tail
}

// Exited returns a channel that is closed when the program has exited or Close was called.
func (r *RunningProgram) Exited() <-chan struct{} { return r.process.Exited() }

// WaitStderr waits, for a second at most, until StderrSummary includes everything that the exited
// program wrote.
func (r *RunningProgram) WaitStderr() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for _, done := range []<-chan struct{}{r.process.Exited(), r.drained} {
		select {
		case <-done:
		case <-timer.C:
			return
		}
	}
}

// Close ends the program. It closes the program's pipes, then sends SIGTERM where the system has
// it, and then kills the program and everything that it started.
func (r *RunningProgram) Close() error {
	_ = r.ReadWriteCloser.Close()
	for _, step := range []struct {
		sig  monitorproto.Signal
		wait time.Duration
	}{{wait: programStopGrace}, {monitorproto.Terminate, programTermGrace}} {
		if step.sig == monitorproto.Terminate && r.process.Signal(monitorproto.Terminate, monitorproto.Group) != nil {
			break
		}
		timer := time.NewTimer(step.wait)
		select {
		case <-r.process.Exited():
		case <-timer.C:
		}
		timer.Stop()
	}
	return r.process.Close()
}
