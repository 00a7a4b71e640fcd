package host

import (
	"errors"
	"io"
	"sync"
	"time"
)

// ErrEnded is returned by Signal when the worker is no more.
var ErrEnded = errors.New("host: the worker has ended")

// closeLimit bounds Close, and with it how long the end of a tree may take.
const closeLimit = 2 * time.Second

// A Process is a worker with its terminal, its private channel and everything
// it started. Its methods may be used by any goroutine.
type Process struct {
	pid     int
	nonce   string
	staged  bool
	carrier carrier
	channel *Channel
	term    *Terminal
	company company

	exited  chan struct{} // closed once exit is set
	exit    Exit          // written once, before exited closes
	gone    chan struct{} // closed when the tree has ended
	remains []int         // written once, before gone closes
	notices chan string   // closed with gone
	wg      sync.WaitGroup
	closing sync.Once
	closed  error
}

// A carrier is how one operating system keeps a worker: Process asks, it does.
type carrier interface {
	signal(Signal, Target) error
	// underWay is closed when every signal until now was sent; nil when that is so.
	underWay() <-chan struct{}
	// kill begins to end the whole tree and returns; it may be repeated.
	kill()
	// run serves the worker until nothing of it is left, within closeLimit of
	// its end or of kill, and dyingLimit for what dies slowly. It calls ended
	// once, and returns what is still there.
	run(ended func(Exit), notice func(string)) (remains []int)
	// readers is nil where they cannot be seen.
	readers() []Reader
	seesReaders() bool
	memoryBytes() int64
}

func newProcess(pid int, nonce string, staged bool, c carrier, ch *Channel, t *Terminal) *Process {
	p := &Process{
		pid: pid, nonce: nonce, staged: staged, carrier: c, channel: ch, term: t,
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
				default: // nobody listens; 16 are enough to know
				}
			})
		close(p.notices)
		close(p.gone)
	})
	return p
}

// PID is the worker's process id.
func (p *Process) PID() int { return p.pid }

// Staged reports whether the worker was started by the stage. Without it, the
// worker leads its session itself and inherits the caller's signal mask, its
// ignored signals and any descriptor that is not close-on-exec; a stopped
// worker stays stopped; processes that left its session or outlive the caller
// may survive.
func (p *Process) Staged() bool { return p.staged }

// Nonce is the third part of REPL_IPC: 16 hexadecimal digits.
func (p *Process) Nonce() string { return p.nonce }

// Channel is the supervisor's end of the private channel, a *Channel.
func (p *Process) Channel() io.ReadWriteCloser { return p.channel }

// Terminal is the supervisor's side of the worker's terminal.
func (p *Process) Terminal() *Terminal { return p.term }

// Signal sends sig; ErrEnded when there is nobody left to get it.
func (p *Process) Signal(sig Signal, to Target) error {
	select {
	case <-p.exited:
		return ErrEnded
	default:
	}
	return p.carrier.signal(sig, to)
}

// SignalsUnderWay is closed when every signal that was ordered until now has been
// sent, and nil when that is so already. From then on a process that is sent something
// else finds them pending before it can take that: on Unix, where kill returns only
// then. On Windows a CTRL_C is a thread that begins in each process some time later.
func (p *Process) SignalsUnderWay() <-chan struct{} { return p.carrier.underWay() }

// Exited is closed when the worker's process has ended. Its children may
// still be there, and output may still be in the terminal: see Gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit is how the worker ended; the zero Exit before Exited is closed.
func (p *Process) Exit() Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return Exit{}
	}
}

// Kill begins to end the worker and everything it started, and returns.
func (p *Process) Kill() { p.carrier.kill() }

// Gone is closed when nothing of the tree is left, or when two seconds were
// not enough to end it, and three more not for what dies slowly: see Remains.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Remains is the pids that were killed and are still there; valid after Gone, normally
// empty.
func (p *Process) Remains() []int {
	select {
	case <-p.gone:
		return p.remains
	default:
		return nil
	}
}

// Notices tells what a user should know, in a sentence each. It is closed with
// Gone; it holds 16 and drops what nobody reads.
func (p *Process) Notices() <-chan string { return p.notices }

// Readers is the threads of the tree that are blocked in reading the terminal
// now, while its input queue is empty. It is a look, not a watch: about 100 µs.
func (p *Process) Readers() []Reader { return p.carrier.readers() }

// Alone reports whether the worker certainly has no children, and no second
// thread that waits for the terminal, so that Readers would find nobody but the
// worker's main thread. It takes a few microseconds, and one for each thread; a
// worker with more than 16 threads is never alone.
func (p *Process) Alone() bool { return p.company.alone(p.pid, p.term.tty) }

// CanSeeReaders reports whether Readers can work: on this system, and for a
// worker that is alive.
func (p *Process) CanSeeReaders() bool { return p.carrier.seesReaders() }

// MemoryBytes is the resident set of the worker's tree; 0 means unknown.
func (p *Process) MemoryBytes() int64 { return p.carrier.memoryBytes() }

// Close ends everything that is left, waits for it, and releases the terminal
// and the channel. It returns within seven seconds.
func (p *Process) Close() error {
	p.closing.Do(func() {
		p.Kill()
		p.wg.Wait()
		p.company.close()
		p.closed = errors.Join(p.channel.Close(), p.term.tty.close())
	})
	return p.closed
}
