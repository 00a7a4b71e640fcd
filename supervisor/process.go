package supervisor

import (
	"io"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// A launcher starts a worker's process and returns once it exists.
type launcher func(*launch.StartConfig) (*launchResult, error)

// A launchResult is what a launcher returns: a process with its channel and its terminal.
type launchResult struct {
	process
	channel       io.ReadWriteCloser // frames; closing it ends a Read and a Write
	terminal      terminal
	readers       readerFinder   // nil where readers of the terminal cannot be detected
	control       sandboxControl // nil where the sandbox of a running worker cannot change
	pid           int
	nonce         string          // prefix of the markers in the terminal
	monitored     bool            // started by the monitor: no process outlives the session
	egressConn    *egressipc.Conn // connections of a sandbox; nil without sandbox.NetworkList
	uncountedNote string          // explains which memory the limit does not count; may be ""
}

// A process is a worker's process together with everything that it started, on any system. Any
// goroutine may call its methods; [launch.WorkerProcess] documents them.
type process interface {
	processLifecycle
	processSandbox
	processLimits
	Signal(monitorproto.Signal, monitorproto.Target) error
	SignalsSent() <-chan struct{}
}

// processLifecycle has the methods of a process that concern its end.
type processLifecycle interface {
	Kill()
	Exited() <-chan struct{}
	Exit() monitorproto.Exit
	Done() <-chan struct{}
	Survivors() []int
	Notices() <-chan string
	Close() error
}

// processSandbox has the methods of a process that concern its sandbox.
type processSandbox interface {
	DrainDenials()
	ForgetDenials() error
	RefreshSandbox() (notices []string, err error)
}

// processLimits has the methods of a process that measure and limit its memory and tasks.
type processLimits interface {
	MemoryBytes() int64
	MeasureUsage(exact int64) proctree.Usage
	ApplyLimits(proctree.Usage, proctree.LimitUpdate)
	EndLargest(u proctree.Usage, bytes int64) string
	EndNewest(u proctree.Usage, tasks int)
}

// A terminal is the terminal that a worker and its children write to and read from; pty.Terminal
// documents it.
type terminal interface {
	terminalStream
	Restore() error
	Resize(pty.TerminalSize) error
	terminalModes
}

// terminalModes has the methods of a terminal that tell how its programs use it.
type terminalModes interface {
	IsRawMode() bool
	ReadsKeys() bool
	ReturnsOnNewline() bool
	IsEchoOff() bool
	HasForegroundJob() bool
}

// terminalStream has the methods of a terminal that read its output and write its input.
type terminalStream interface {
	TryRead([]byte) (int, error)
	AwaitOutput(take func() bool) error
	WriteInput(b []byte, eof bool) error
	SyncOutput()
	TypeKeys([]byte) error
	AnswerQuery([]byte) int
	UnreadInput() int
}

// A readerFinder finds the programs that are blocked in a read of the terminal.
type readerFinder interface {
	Readers() []pty.TerminalReader
	RefreshReader(pty.TerminalReader) (pty.TerminalReader, pty.PollState)
	HasNoOtherReader() bool
	EndReaders(s monitorproto.Signal, announce func(names []string))
}

// launchLocal starts a process of this system.
func launchLocal(c *launch.StartConfig) (*launchResult, error) {
	p, err := launch.Start(c)
	if err != nil {
		return nil, err
	}
	l := &launchResult{
		process:       p,
		channel:       p.Channel(),
		terminal:      p.Terminal(),
		pid:           p.PID(),
		nonce:         p.Nonce(),
		monitored:     p.HasMonitor(),
		egressConn:    p.EgressConn(),
		uncountedNote: p.UncountedMemory(),
	}
	if p.CanSeeReaders() {
		l.readers = p
	}
	if c.Sandbox != nil && c.Sandbox.Mechanism == "" {
		l.control = p
	}
	return l, nil
}

// A sandboxControl changes the sandbox of a running worker.
type sandboxControl interface {
	// AnswerCall resumes a pending call, which succeeds only if ok is true. It is no error if the call
	// no longer exists.
	AnswerCall(call uint64, ok bool) error
	// Grant makes a file or directory writable, or visible if read is true. When it returns, all
	// programs of the worker can use it. id is its filestate.IdentityOf; "" accepts anything at that
	// path. After launch.ErrGrantPending, late is called if the grant takes effect later.
	Grant(path string, read bool, id string, late func()) error
}
