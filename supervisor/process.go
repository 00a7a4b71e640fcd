package supervisor

import (
	"io"

	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

// A launcher starts a worker's process and returns once it exists.
type launcher func(*host.Command) (*launched, error)

// launched is the result of a launcher: a process with its channel and its terminal.
type launched struct {
	process
	channel  io.ReadWriteCloser // frames; closing it ends a Read and a Write
	terminal terminal
	readers  readerFinder // nil where readers of the terminal cannot be seen
	gate     gate         // nil where nothing can be asked for or given while the worker runs
	pid      int
	nonce    string       // of the markers in the terminal
	staged   bool         // started by the stage: nothing outlives the session
	outlet   *outlet.Conn // connections of a sandbox; nil without workers.NetworkList
	leaves   string       // which memory its limit leaves out, in a sentence; "" if none
}

// A process is a worker's process with everything that it started, wherever it
// runs. Its methods may be used by any goroutine; [host.Process] documents them.
type process interface {
	Signal(host.Signal, host.Target) error
	SignalsSent() <-chan struct{}
	Kill()
	Exited() <-chan struct{}
	Exit() host.Exit
	Gone() <-chan struct{}
	Remains() []int
	Notices() <-chan string
	CatchUp()
	Forget() error
	Refresh() (notices []string, err error)
	MemoryBytes() int64
	Usage(exact int64) host.Usage
	Allow(host.Usage, host.Allowance)
	EndLargest(u host.Usage, bytes int64) string
	EndNewest(u host.Usage, tasks int)
	Close() error
}

// A terminal is what a worker and its children write to and read from;
// [host.Terminal] documents it.
type terminal interface {
	TryRead([]byte) (int, error)
	Await(take func() bool) error
	Feed(b []byte, eof bool) error
	Sync()
	Restore() error
	Resize(host.Size) error
	Screen() bool
	Lent() bool
	Keys([]byte) error
}

// A readerFinder finds the programs that are blocked in reading the terminal.
type readerFinder interface {
	Readers() []host.Reader
	NoOtherReader() bool
}

// launchHere starts a process of this system.
func launchHere(c *host.Command) (*launched, error) {
	p, err := host.Start(c)
	if err != nil {
		return nil, err
	}
	l := &launched{
		process:  p,
		channel:  p.Channel(),
		terminal: p.Terminal(),
		pid:      p.PID(),
		nonce:    p.Nonce(),
		staged:   p.Staged(),
		outlet:   p.Outlet(),
		leaves:   p.Uncounted(),
	}
	if p.CanSeeReaders() {
		l.readers = p
	}
	if c.Sandbox != nil && c.Sandbox.By == "" {
		l.gate = p
	}
	return l, nil
}
