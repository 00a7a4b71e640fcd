package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// closeTimeout bounds the time to end a process tree.
const closeTimeout = 2 * time.Second

// A WorkerProcess is a worker with its terminal, its private channel and everything
// it started. Its methods may be used by any goroutine.
type WorkerProcess struct {
	pid             int
	nonce           string
	hasMonitor      bool
	backend         backend
	channel         *Channel
	term            *pty.Terminal
	childWatch      pty.ChildWatch
	egressConn      *egressipc.Conn // nil unless connections may leave the sandbox
	uncountedMemory string          // returned by UncountedMemory

	exited    chan struct{}     // closed once exit is set
	exit      monitorproto.Exit // written once, before exited closes
	done      chan struct{}     // closed when the tree has ended
	survivors []int             // written once, before done closes
	notices   chan string       // closed with done
	wg        sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// A backend implements what depends on the system, and on whether there is a monitor.
type backend interface {
	sendSignal(monitorproto.Signal, monitorproto.Target) error
	// signalsSent is closed when every signal requested so far was sent; nil if that is so already.
	signalsSent() <-chan struct{}
	// killTree starts to kill the whole tree and returns; it may be repeated.
	killTree()
	// run serves the worker until nothing of it is left: within closeTimeout of its end or of
	// killTree, plus proctree.DyingTimeout for processes that die slowly. It calls ended once, and
	// returns the pids of the survivors.
	run(ended func(monitorproto.Exit), notice func(string)) (remains []int)
	readerBackend
	usageBackend
	sandboxBackend
}

// A readerBackend is the part of a backend that finds the readers of the terminal.
type readerBackend interface {
	// findReaders returns nil if readers cannot be seen.
	findReaders() []pty.TerminalReader
	refreshReader(pty.TerminalReader) (pty.TerminalReader, pty.PollState)
	canSeeReaders() bool
}

// A usageBackend is the part of a backend that measures and limits what a tree uses.
type usageBackend interface {
	memoryBytes() int64
	// measureUsage, applyLimits and signalMembers do nothing if the system has no such limits.
	measureUsage(exact int64) proctree.Usage
	applyLimits(proctree.Usage, proctree.LimitUpdate)
	// signalMembers sends a signal to those of the processes that belong to the tree.
	signalMembers(pids []int, s monitorproto.Signal)
}

// A sandboxBackend is the part of a backend that serves a sandbox.
type sandboxBackend interface {
	// permitCall answers a suspended call.
	permitCall(id uint64, ok bool) error
	// grantAccess adds a directory to the sandbox, and waits until the worker has access.
	grantAccess(path string, read bool, id string, late func()) error
	// forgetDenials makes the monitor report denials again.
	forgetDenials() error
	// refreshSandbox updates the sandbox with files that programs outside have replaced.
	refreshSandbox() (notices []string, err error)
	// drainEvents processes the events that the monitor has sent so far.
	drainEvents()
}

// noSandbox is embedded by a backend that does not support sandboxes.
type noSandbox struct{}

func (noSandbox) permitCall(uint64, bool) error                  { return errNoSandbox }
func (noSandbox) grantAccess(string, bool, string, func()) error { return errNoSandbox }
func (noSandbox) forgetDenials() error                           { return nil }
func (noSandbox) refreshSandbox() ([]string, error)              { return nil, nil }
func (noSandbox) drainEvents()                                   {}

// ErrGrantPending is returned by Grant if it is still unknown whether the worker has the access.
var ErrGrantPending = errors.New("launch: the monitor did not answer a grant in time")

var errNoSandbox = errors.New("launch: the worker has no sandbox")

func newProcess(pid int, nonce string, hasMonitor bool, c backend, ch *Channel, t *pty.Terminal) *WorkerProcess {
	p := &WorkerProcess{
		pid: pid, nonce: nonce, hasMonitor: hasMonitor, backend: c, channel: ch, term: t,
		exited:  make(chan struct{}),
		done:    make(chan struct{}),
		notices: make(chan string, 16),
	}
	p.wg.Go(func() {
		p.survivors = c.run(
			func(e monitorproto.Exit) { p.exit = e; close(p.exited) },
			func(s string) {
				select {
				case p.notices <- s:
				default: // the user has not read the last 16
				}
			})
		close(p.notices)
		close(p.done)
	})
	return p
}

// PID returns the worker's process id.
func (p *WorkerProcess) PID() int { return p.pid }

// HasMonitor reports whether the monitor started the worker. Without it, the worker leads
// its session itself. It inherits the caller's signal mask, its ignored signals and any
// descriptor that is not close-on-exec. A stopped worker stays stopped. Processes that left
// its session or outlive the caller may survive.
func (p *WorkerProcess) HasMonitor() bool { return p.hasMonitor }

// Nonce returns the third part of REPL_IPC: 16 hexadecimal digits.
func (p *WorkerProcess) Nonce() string { return p.nonce }

// Channel returns the supervisor's end of the private channel, a *Channel.
func (p *WorkerProcess) Channel() io.ReadWriteCloser { return p.channel }

// Terminal returns the supervisor's end of the worker's terminal.
func (p *WorkerProcess) Terminal() *pty.Terminal { return p.term }

// Signal sends sig. It returns monitorproto.ErrEnded if the worker has ended.
func (p *WorkerProcess) Signal(sig monitorproto.Signal, to monitorproto.Target) error {
	select {
	case <-p.exited:
		return monitorproto.ErrEnded
	default:
	}
	return p.backend.sendSignal(sig, to)
}

// SignalsSent returns a channel that is closed when every signal requested so far has been
// sent, or nil if that is so already. On Unix, a sent signal is pending in its process before
// the process can read anything sent to it afterwards. On Windows it need not be: a CTRL_C
// is a thread that starts in each process a little later.
func (p *WorkerProcess) SignalsSent() <-chan struct{} { return p.backend.signalsSent() }

// Exited is closed when the worker's process has ended. Its children may still be running,
// and output may still be in the terminal: see Done.
func (p *WorkerProcess) Exited() <-chan struct{} { return p.exited }

// Exit returns how the worker ended, or the zero Exit before Exited is closed.
func (p *WorkerProcess) Exit() monitorproto.Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return monitorproto.Exit{}
	}
}

// Kill starts to kill the worker and everything it started, and returns.
func (p *WorkerProcess) Kill() { p.backend.killTree() }

// Done is closed when nothing of the tree is left, or when the time is up. That is two seconds to
// kill the tree, and three more for processes that die slowly. See Survivors.
func (p *WorkerProcess) Done() <-chan struct{} { return p.done }

// Survivors returns the pids of processes that were killed but still exist, normally none. It
// is valid once Done is closed.
func (p *WorkerProcess) Survivors() []int {
	select {
	case <-p.done:
		return p.survivors
	default:
		return nil
	}
}

// Notices delivers sentences for the user. It is closed with Done. It buffers 16; further
// notices are dropped until they are read.
func (p *WorkerProcess) Notices() <-chan string { return p.notices }

// AnswerCall lets the suspended call of a denial continue; if ok is false, the call is refused.
// It is not an error if the call no longer exists.
func (p *WorkerProcess) AnswerCall(id uint64, ok bool) error { return p.backend.permitCall(id, ok) }

// Grant gives the worker's sandbox a file or directory to write, or only to read. When it
// returns, the worker and its children have access. It waits a few seconds at most. After
// ErrGrantPending, late is called if the access arrives after all.
func (p *WorkerProcess) Grant(path string, read bool, id string, late func()) error {
	return p.backend.grantAccess(path, read, id, late)
}

// RefreshSandbox updates the sandbox with files that programs outside have replaced.
// SignalsSent waits for it. The notices are for the user.
func (p *WorkerProcess) RefreshSandbox() (notices []string, err error) {
	return p.backend.refreshSandbox()
}

// ForgetDenials makes the sandbox report denials that it has reported before.
func (p *WorkerProcess) ForgetDenials() error { return p.backend.forgetDenials() }

// DrainDenials waits until StartConfig.OnDenial has been called for every denied call that has
// ended.
func (p *WorkerProcess) DrainDenials() { p.backend.drainEvents() }

// EgressConn returns the socket over which connections leave the worker's sandbox, or nil
// without sandbox.NetworkList.
func (p *WorkerProcess) EgressConn() *egressipc.Conn { return p.egressConn }

// UncountedMemory returns a sentence about memory that the limit of this process does not count, or "".
func (p *WorkerProcess) UncountedMemory() string { return p.uncountedMemory }

// Readers returns the threads of the tree that are blocked reading or polling the terminal while
// its input queue is empty. It takes one snapshot, in about 100 µs.
func (p *WorkerProcess) Readers() []pty.TerminalReader { return p.backend.findReaders() }

// RefreshReader looks again at one thread that polled, in about 20 µs. It returns what has changed,
// and what the thread does now.
func (p *WorkerProcess) RefreshReader(r pty.TerminalReader) (pty.TerminalReader, pty.PollState) {
	return p.backend.refreshReader(r)
}

// EndReaders ends the programs that read the terminal, except the worker itself. They get SIGHUP, as
// if their terminal was closed, or SIGKILL. It calls announce with their names before that.
func (p *WorkerProcess) EndReaders(s monitorproto.Signal, announce func(names []string)) {
	var pids []int
	var names []string
	for _, r := range p.Readers() {
		if r.PID != p.pid && !slices.Contains(pids, r.PID) {
			pids, names = append(pids, r.PID), append(names, r.Command)
		}
	}
	if len(pids) > 0 {
		announce(names)
		p.backend.signalMembers(pids, s)
	}
}

// HasNoOtherReader reports whether Readers could find only the worker's main thread. Then the
// worker certainly has no children, and no second thread that waits for the terminal. It takes a
// few microseconds, plus one for each thread. For a worker with more than 16 threads it is always
// false.
func (p *WorkerProcess) HasNoOtherReader() bool {
	return p.childWatch.HasNoOtherReader(p.pid, p.term)
}

// CanSeeReaders reports whether Readers works on this system. The worker must be alive.
func (p *WorkerProcess) CanSeeReaders() bool { return p.backend.canSeeReaders() }

// MemoryBytes returns the resident set of the worker's tree; 0 means unknown.
func (p *WorkerProcess) MemoryBytes() int64 { return p.backend.memoryBytes() }

// Close ends everything that is left, waits for it, and releases the terminal and the
// channel. It returns within seven seconds.
func (p *WorkerProcess) Close() error {
	p.closeOnce.Do(func() {
		p.Kill()
		p.wg.Wait()
		p.childWatch.Close()
		if p.egressConn != nil {
			_ = p.egressConn.Close()
		}
		p.closeErr = errors.Join(p.channel.Close(), p.term.Close())
	})
	return p.closeErr
}

// randomHex returns 16 random hexadecimal digits.
func randomHex() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// MeasureUsage measures the tree. Its processes share memory after a fork. If they use exact bytes
// or more, shared memory is counted once, which takes milliseconds for each gigabyte.
func (p *WorkerProcess) MeasureUsage(exact int64) proctree.Usage {
	return p.backend.measureUsage(exact)
}

// ApplyLimits applies update a to the process tree that u describes.
func (p *WorkerProcess) ApplyLimits(u proctree.Usage, a proctree.LimitUpdate) {
	p.backend.applyLimits(u, a)
}

// EndLargest kills the largest process of the tree except the worker, if it uses at least this
// many bytes. It returns the name of that process, or "".
func (p *WorkerProcess) EndLargest(u proctree.Usage, bytes int64) string {
	var largest proctree.ProcessUsage
	for _, one := range u.Processes {
		if one.PID != p.pid && one.Memory > largest.Memory {
			largest = one
		}
	}
	if largest.Memory < bytes || largest.PID == 0 {
		return ""
	}
	p.backend.signalMembers([]int{largest.PID}, monitorproto.Kill)
	return largest.Name
}

// EndNewest kills the newest processes of the tree except the worker, until at least this many
// tasks are gone.
func (p *WorkerProcess) EndNewest(u proctree.Usage, tasks int) {
	var pids []int
	for i := len(u.Processes) - 1; i >= 0 && tasks > 0; i-- {
		if one := u.Processes[i]; one.PID != p.pid {
			tasks -= one.Tasks
			pids = append(pids, one.PID)
		}
	}
	p.backend.signalMembers(pids, monitorproto.Kill)
}
