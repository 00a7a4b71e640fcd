package host

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

// ErrEnded is returned by Signal when the worker has ended.
var ErrEnded = errors.New("host: the worker has ended")

// closeLimit bounds the time that the end of a tree may take.
const closeLimit = 2 * time.Second

// A Process is a worker with its terminal, its private channel and everything
// it started. Its methods may be used by any goroutine.
type Process struct {
	pid        int
	nonce      string
	staged     bool
	backend    backend
	channel    *Channel
	term       *Terminal
	childWatch childWatch
	outlet     *outlet.Conn // nil when no connection may leave a sandbox
	uncounted  string       // as Uncounted returns it

	exited  chan struct{} // closed once exit is set
	exit    Exit          // written once, before exited closes
	gone    chan struct{} // closed when the tree has ended
	remains []int         // written once, before gone closes
	notices chan string   // closed with gone
	wg      sync.WaitGroup
	closing sync.Once
	closed  error
}

// A backend does for a Process what differs by system, and by whether there is a stage.
type backend interface {
	signal(Signal, Target) error
	// signalsSent is closed when every signal ordered so far was sent; nil when that is so.
	signalsSent() <-chan struct{}
	// kill begins to end the whole tree and returns; it may be repeated.
	kill()
	// run serves the worker until nothing of it is left, within closeLimit of
	// its end or of kill, plus dyingLimit for processes that die slowly. It calls
	// ended once, and returns the pids that are still there.
	run(ended func(Exit), notice func(string)) (remains []int)
	// readers is nil where they cannot be seen.
	readers() []Reader
	seesReaders() bool
	memoryBytes() int64
	// usage, allow and endMembers do nothing where the system has no such limits.
	usage(exact int64) Usage
	allow(Usage, Allowance)
	endMembers(pids []int)
	confined
}

// confined is a backend's part that serves a sandbox.
type confined interface {
	// permit answers a held call.
	permit(id uint64, ok bool) error
	// grant gives the sandbox a directory, and waits until it has it.
	grant(path string, read bool, id string, late func()) error
	// forget makes the stage tell denials again.
	forget() error
	// refresh shows the sandbox what programs outside have replaced.
	refresh() (notices []string, err error)
	// catchUp takes in the reports that the stage has sent so far.
	catchUp()
}

// unconfined is that part of a backend that has no sandboxes.
type unconfined struct{}

func (unconfined) permit(uint64, bool) error                { return errUnconfined }
func (unconfined) grant(string, bool, string, func()) error { return errUnconfined }
func (unconfined) forget() error                            { return nil }
func (unconfined) refresh() ([]string, error)               { return nil, nil }
func (unconfined) catchUp()                                 {}

// ErrUnanswered is returned by Grant when it is not known yet whether the worker has what was given.
var ErrUnanswered = errors.New("host: the stage has not answered a grant in time")

var errUnconfined = errors.New("host: the worker has no sandbox")

func newProcess(pid int, nonce string, staged bool, c backend, ch *Channel, t *Terminal) *Process {
	p := &Process{
		pid: pid, nonce: nonce, staged: staged, backend: c, channel: ch, term: t,
		exited:  make(chan struct{}),
		gone:    make(chan struct{}),
		notices: make(chan string, 16),
	}
	p.wg.Go(func() {
		p.remains = c.run(
			func(e Exit) { p.exit = e; close(p.exited) },
			func(s string) {
				select {
				case p.notices <- s:
				default: // nobody reads them; 16 are enough
				}
			})
		close(p.notices)
		close(p.gone)
	})
	return p
}

// PID returns the worker's process id.
func (p *Process) PID() int { return p.pid }

// Staged reports whether the worker was started by the stage. Without it, the
// worker leads its session itself and inherits the caller's signal mask, its
// ignored signals and any descriptor that is not close-on-exec; a stopped
// worker stays stopped; processes that left its session or outlive the caller
// may survive.
func (p *Process) Staged() bool { return p.staged }

// Nonce returns the third part of REPL_IPC: 16 hexadecimal digits.
func (p *Process) Nonce() string { return p.nonce }

// Channel returns the supervisor's end of the private channel, a *Channel.
func (p *Process) Channel() io.ReadWriteCloser { return p.channel }

// Terminal returns the supervisor's side of the worker's terminal.
func (p *Process) Terminal() *Terminal { return p.term }

// Signal sends sig. It returns ErrEnded if the target has ended.
func (p *Process) Signal(sig Signal, to Target) error {
	select {
	case <-p.exited:
		return ErrEnded
	default:
	}
	return p.backend.signal(sig, to)
}

// SignalsSent returns a channel that is closed when every signal ordered so far has
// been sent, or nil if that is so already. On Unix, a signal that was sent is pending in
// its process before the process can read anything that is sent to it afterwards. On
// Windows it need not be: a CTRL_C is a thread that starts in each process a little later.
func (p *Process) SignalsSent() <-chan struct{} { return p.backend.signalsSent() }

// Exited is closed when the worker's process has ended. Its children may
// still be there, and output may still be in the terminal: see Gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit returns how the worker ended; the zero Exit before Exited is closed.
func (p *Process) Exit() Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return Exit{}
	}
}

// Kill begins to end the worker and everything it started, and returns.
func (p *Process) Kill() { p.backend.kill() }

// Gone is closed when nothing of the tree is left, or when time is up: two seconds to
// kill the tree and three more for processes that die slowly. See Remains.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Remains returns the pids that were killed and are still there, normally none. It is
// valid after Gone.
func (p *Process) Remains() []int {
	select {
	case <-p.gone:
		return p.remains
	default:
		return nil
	}
}

// Notices carries sentences for the user. It is closed with Gone. It holds 16; more
// are dropped while nobody reads.
func (p *Process) Notices() <-chan string { return p.notices }

// Permit lets the held call of a denial go on. Without ok it is refused. A call that is gone
// is no error.
func (p *Process) Permit(id uint64, ok bool) error { return p.backend.permit(id, ok) }

// Grant gives the worker's sandbox a file or directory to write, or only to read. When it returns, the
// worker and its children have it. It waits a few seconds at most: after ErrUnanswered, late is called if they
// have it after all.
func (p *Process) Grant(path string, read bool, id string, late func()) error {
	return p.backend.grant(path, read, id, late)
}

// Refresh shows the sandbox what programs outside have replaced. SignalsSent waits for it. The notices are
// for the user.
func (p *Process) Refresh() (notices []string, err error) { return p.backend.refresh() }

// Forget makes the sandbox tell denials that it has told already.
func (p *Process) Forget() error { return p.backend.forget() }

// CatchUp returns when Command.Denied knows each denial of a call that has ended.
func (p *Process) CatchUp() { p.backend.catchUp() }

// Outlet returns the socket over which connections leave the worker's sandbox; nil without
// workers.NetworkList.
func (p *Process) Outlet() *outlet.Conn { return p.outlet }

// Uncounted is a sentence that says which memory the limit of this process leaves out; "" if there is none.
func (p *Process) Uncounted() string { return p.uncounted }

// Readers returns the threads of the tree that are blocked now in reading the terminal
// while its input queue is empty. It looks once and takes about 100 µs.
func (p *Process) Readers() []Reader { return p.backend.readers() }

// NoOtherReader reports whether Readers could find only the worker's main thread: the
// worker certainly has no children, and no second thread that waits for the terminal.
// It takes a few microseconds, plus one for each thread. For a worker with more than 16
// threads it is always false.
func (p *Process) NoOtherReader() bool { return p.childWatch.noOtherReader(p.pid, p.term.tty) }

// CanSeeReaders reports whether Readers works on this system. The worker must be alive.
func (p *Process) CanSeeReaders() bool { return p.backend.seesReaders() }

// MemoryBytes returns the resident set of the worker's tree; 0 means unknown.
func (p *Process) MemoryBytes() int64 { return p.backend.memoryBytes() }

// Close ends everything that is left, waits for it, and releases the terminal
// and the channel. It returns within seven seconds.
func (p *Process) Close() error {
	p.closing.Do(func() {
		p.Kill()
		p.wg.Wait()
		p.childWatch.close()
		if p.outlet != nil {
			_ = p.outlet.Close()
		}
		p.closed = errors.Join(p.channel.Close(), p.term.tty.close())
	})
	return p.closed
}
