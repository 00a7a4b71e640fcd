package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// Size is the size of a terminal in character cells. The zero value means
// 40 rows and 120 columns.
type Size struct{ Rows, Cols uint16 }

func (s Size) orDefault() Size {
	if s == (Size{}) {
		return Size{Rows: 40, Cols: 120}
	}
	return s
}

// A Command describes the process to start.
type Command struct {
	Path string   // the executable, absolute; not looked up in PATH
	Args []string // without argv[0], which is Path
	Env  []string // the complete environment; REPL_IPC and TURNSTONE_TAG are added
	Dir  string   // the working directory; "" means the caller's
	Size Size     // of the terminal

	// Interactive makes the terminal a person's: programs may take its keys, see Terminal.IsRawMode.
	Interactive bool

	// ChannelOnStdio makes the channel the process's standard input and output. Only its standard error
	// is the terminal, and it gets no REPL_IPC: it is no worker, and knows nothing of one.
	ChannelOnStdio bool

	// Stdin is the standard input in the place of the terminal, and PipedOutput puts a pipe in its
	// place for both outputs. Both are for Windows, see workers.Program.
	Stdin       *os.File
	PipedOutput bool

	// Limits bound what the worker and everything it starts use. A limit that the
	// system does not have ends the start at the step "limits".
	Limits Limits

	// RuntimeDir is the directory in which the services of the user listen (XDG_RUNTIME_DIR): their
	// manager is asked for a control group where a limit needs one. "" asks nobody.
	RuntimeDir string

	// CPUs are the processors that the worker may use, as PickCPUs chose them; none means
	// those of this program.
	CPUs []int

	// Sandbox confines the worker and everything that it starts; nil leaves them the
	// caller's rights. It needs the stage.
	Sandbox *Sandbox

	// OnDenial is told what the sandbox refuses. If the denial has an ID, its call waits until
	// Process.Permit answers it. Denied must return soon: the stage's other reports wait.
	OnDenial func(Denial)

	// Timeout bounds Start; 0 means 60 s.
	Timeout time.Duration

	// Context gives up a start that a stage makes on Unix; nil: nothing does. It does nothing to
	// a worker that has started.
	Context context.Context

	// Logger gets, at debug, every order to the stage and every report of it, without
	// the worker's arguments and environment; nil: nobody wants to know.
	Logger *slog.Logger
}

// A Sandbox says how a worker is confined.
type Sandbox struct {
	Mechanism confine.Mechanism // as in the plan
	Egress    bool              // as in the plan

	// Plan returns the plan. It is called once, while the stage starts: looking for repositories
	// takes as long.
	Plan func() (*confine.Plan, error)
}

// hasNamespaces reports whether the worker is confined by namespaces, and so served by its stage.
func (s *Sandbox) hasNamespaces() bool { return s != nil && s.Mechanism == "" }

func (c *Command) startTimeout() time.Duration {
	if c.Timeout == 0 {
		return 60 * time.Second
	}
	return c.Timeout
}

// Start starts a worker on a terminal of its own and returns once its process
// exists. A failure is a *StartError that names the step, and leaves nothing
// behind. It takes Command.Timeout at most.
//
// In a program that called MonitorMain the worker is started by the stage.
// Otherwise it is started directly, with weaker promises: see Process.HasMonitor.
func Start(c *Command) (*Process, error) {
	if c.Sandbox != nil {
		if err := confine.CheckSupported(c.Sandbox.Mechanism); err != nil {
			return nil, &StartError{Step: "sandbox", Err: err}
		}
		if !IsMonitorAvailable() {
			return nil, &StartError{Step: "sandbox", Err: errors.New("it needs the stage: call StageMain first in main")}
		}
	}
	if err := c.Limits.checkSupported(len(c.CPUs) > 0); err != nil {
		return nil, &StartError{Step: "limits", Err: err}
	}
	return start(c)
}

// channelVariable is the variable that gives a worker its channel and nonce.
const channelVariable = "REPL_IPC"

// monitorMainCalled records that main called MonitorMain. It is a variable of the package because
// nothing else can tell.
var monitorMainCalled atomic.Bool

// MonitorMain makes the stage available. It must be the first line of main (and
// of TestMain): in the process that Start re-executes as a stage it never
// returns; everywhere else it costs a string comparison.
func MonitorMain() {
	if isMonitor() {
		runMonitor()
	}
	monitorMainCalled.Store(true)
}

// IsMonitorAvailable reports whether this program called MonitorMain.
func IsMonitorAvailable() bool { return monitorMainCalled.Load() }

// randomHex returns 16 random hexadecimal digits.
func randomHex() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// coverageEnv returns GOCOVERDIR, the directory for coverage data, if env has it.
func coverageEnv(env []string) []string {
	for _, kv := range env {
		if strings.HasPrefix(kv, "GOCOVERDIR=") {
			return []string{kv}
		}
	}
	return nil
}
