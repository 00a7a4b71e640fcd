package launch

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A StartConfig describes the process to start and its environment.
type StartConfig struct {
	Path string           // the executable, absolute; not looked up in PATH
	Args []string         // without argv[0], which is Path
	Env  []string         // the complete environment; REPL_IPC and TURNSTONE_TAG are added
	Dir  string           // the working directory; "" means the caller's
	Size pty.TerminalSize // of the terminal

	// Interactive prepares the terminal for a user at a keyboard: programs may read single keys,
	// see pty.Terminal.IsRawMode.
	Interactive bool

	// ChannelOnStdio makes the channel the process's standard input and output. Only its standard
	// error is the terminal. It gets no REPL_IPC, because it does not speak the worker protocol.
	ChannelOnStdio bool

	// Stdin replaces the terminal as standard input, and PipedOutput replaces it with a pipe for
	// both outputs. Both are for Windows, see workers.Program.
	Stdin       *os.File
	PipedOutput bool

	// Limits bound what the worker and everything it starts may use. A limit that the system
	// does not support fails the start at the step "limits".
	Limits proctree.ProcessLimits

	// RuntimeDir is the directory where the user's services listen (XDG_RUNTIME_DIR). If a limit
	// needs a control group, the manager of these services is asked for one; with "" it is not
	// asked.
	RuntimeDir string

	// CPUs are the processors that the worker may use, as chosen by proctree.PickCPUs. If there are
	// none, the worker may use those of this program.
	CPUs []int

	// Sandbox confines the worker and everything it starts; with nil they have the caller's rights.
	// A sandbox needs the monitor.
	Sandbox *SandboxConfig

	// OnDenial is called for each call that the sandbox refuses. If the denial has an ID, the call
	// waits until WorkerProcess.AnswerCall answers it. OnDenial must return soon: it delays the
	// monitor's other events.
	OnDenial func(monitorproto.Denial)

	// Timeout bounds Start; 0 means 60 s.
	Timeout time.Duration

	// Context cancels a start through a monitor on Unix; nil never does. It has no effect on a
	// worker that has started.
	Context context.Context

	// Logger logs at debug level every command to the monitor and every event from it, without
	// the worker's arguments and environment; nil logs nothing.
	Logger *slog.Logger
}

// A SandboxConfig describes how a worker and everything it starts are confined.
type SandboxConfig struct {
	Mechanism plan.Mechanism // as in the plan
	Egress    bool           // as in the plan

	// Plan returns the plan. It is called once, while the monitor starts, because the search for
	// repositories takes about as long as that start.
	Plan func() (*plan.Plan, error)
}

// hasNamespaces reports whether namespaces confine the worker, so that its monitor serves the sandbox.
func (s *SandboxConfig) hasNamespaces() bool { return s != nil && s.Mechanism == "" }

func (c *StartConfig) startTimeout() time.Duration {
	if c.Timeout == 0 {
		return 60 * time.Second
	}
	return c.Timeout
}
