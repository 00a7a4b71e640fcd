package supervisor

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A fakeProcess is a worker without a process, for tests in fake time. The test
// speaks for it, and finds all that reached it with the time since it was launched.
type fakeProcess struct {
	t          *testing.T
	conn       *ipc.Conn // the worker's end
	launchedAt time.Time
	exited     chan struct{}
	notices    chan string

	mu             sync.Mutex
	received       []receivedItem
	blockedReaders []host.TerminalReader
	output         []byte // that nobody has read from its terminal
	scanCount      int
	pendingSignals chan struct{} // signals are under way until it is closed; nil when none is
	fatalSignal    host.Signal   // the first that ends it
	grantError     error         // the answer to Grant
	lateGrant      func()        // of the last Grant
	exit           host.Exit

	usage         host.Usage
	usageCalls    int              // how often usage was asked for
	lastAllowance host.LimitUpdate // the last
	once          sync.Once
}

// receivedItem is what reached a fake worker: a frame or a signal.
type receivedItem struct {
	at   time.Duration
	what any
}

// A sentSignal is a signal.
type sentSignal struct {
	sig host.Signal
	to  host.Target
}

// runWithFakeWorker runs a test in fake time, with a session whose worker says nothing but
// what the test says.
func runWithFakeWorker(t *testing.T, o *Options, spec workers.Spec, test func(*testing.T, *Session, *fakeProcess)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Dir = t.TempDir()
		sup, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var p *fakeProcess
		sup.launcher = func(*host.Command) (*launchResult, error) {
			var l *launchResult
			p, l = newFakeProcess(t)
			return l, nil
		}
		defer func() {
			if err := sup.Close(); err != nil {
				t.Error(err)
			}
		}()
		spec.Name, spec.Path = "fake", o.Dir // nothing runs it
		s, err := sup.Open(t.Context(), "main", spec)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, p)
	})
}

func newFakeProcess(t *testing.T) (*fakeProcess, *launchResult) {
	ours, theirs := net.Pipe()
	p := &fakeProcess{
		t:           t,
		conn:        ipc.NewConn(theirs, ipc.FromSupervisor),
		launchedAt:  time.Now(),
		exited:      make(chan struct{}),
		notices:     make(chan string),
		fatalSignal: host.Kill,
	}
	go func() {
		for {
			m, err := p.conn.Receive()
			if err != nil {
				p.addReceived(err)
				return
			}
			p.addReceived(m)
		}
	}()
	return p, &launchResult{process: p, channel: ours, terminal: p, readers: p, control: p, nonce: "0123456789abcdef", monitored: true, pid: 1}
}

func (p *fakeProcess) addReceived(what any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = append(p.received, receivedItem{time.Since(p.launchedAt), what})
}

// sendFrames has the worker send frames, and waits until all has come of them that can.
func (p *fakeProcess) sendFrames(frames ...ipc.Message) {
	p.t.Helper()
	for _, f := range frames {
		if err := p.conn.Send(f); err != nil {
			p.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// sendReady is what a worker says that starts and has nothing to run.
func (p *fakeProcess) sendReady() {
	p.t.Helper()
	p.sendFrames(p.readyFrame(), ipc.Idle{Outcome: ipc.OutcomeOK, Prompt: "> "})
}

// withLock changes the state of the process.
func (p *fakeProcess) withLock(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *fakeProcess) readyFrame() ipc.Message {
	return ipc.WorkerReady{
		Protocol:     ipc.Protocol{Name: ipc.ProtocolName, Version: ipc.ProtocolVersion},
		Capabilities: ipc.Capabilities{Interrupt: ipc.InterruptBySignal},
	}
}

// readBehindMarker has a child read the terminal, behind the marker of a frame that has not come: mark 1.
func (p *fakeProcess) readBehindMarker() {
	p.withLock(func() {
		p.output = []byte("\x1b_0123456789abcdef;#1\x1b\\behind")
		p.blockedReaders = []host.TerminalReader{{Key: "cat", Command: "cat"}}
	})
}

// advanceTime lets fake time pass, and all happen that is due in it.
func (p *fakeProcess) advanceTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// takeReceived returns what reached the worker since the last call.
func (p *fakeProcess) takeReceived() []receivedItem {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.received
	p.received = nil
	return all
}

// receivedFrames returns the frames of a kind that reached the worker, and when they did.
func receivedFrames[M ipc.Message](all []receivedItem) (got []M, at []time.Duration) {
	for _, h := range all {
		if m, ok := h.what.(M); ok {
			got, at = append(got, m), append(at, h.at)
		}
	}
	return got, at
}

func (p *fakeProcess) exitWith(e host.Exit) {
	p.once.Do(func() {
		p.exit = e
		go func() { _ = p.conn.Close() }()
		close(p.notices)
		close(p.exited)
	})
}

func (p *fakeProcess) Signal(sig host.Signal, to host.Target) error {
	p.addReceived(sentSignal{sig, to})
	p.mu.Lock()
	ends := sig != host.Interrupt && sig >= p.fatalSignal
	p.mu.Unlock()
	if ends {
		p.exitWith(host.Exit{Signal: sig.String()})
	}
	return nil
}

func (p *fakeProcess) SignalsSent() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pendingSignals
}

func (p *fakeProcess) Kill() { _ = p.Signal(host.Kill, host.Group) }

func (p *fakeProcess) Exited() <-chan struct{}           { return p.exited }
func (p *fakeProcess) Exit() host.Exit                   { return p.exit }
func (p *fakeProcess) Done() <-chan struct{}             { return p.exited }
func (p *fakeProcess) Survivors() []int                  { return nil }
func (p *fakeProcess) Notices() <-chan string            { return p.notices }
func (p *fakeProcess) MemoryBytes() int64                { return 0 }
func (p *fakeProcess) DrainDenials()                     {}
func (p *fakeProcess) ForgetDenials() error              { return nil }
func (p *fakeProcess) RefreshSandbox() ([]string, error) { return nil, nil }

// An answeredCall is the answer to a held call.
type answeredCall struct {
	call uint64
	ok   bool
}

// A writeGrant is what the sandbox was given to write, and a shown what it was given to read.
type (
	writeGrant struct{ dir string }
	readGrant  struct{ path string }
)

func (p *fakeProcess) Permit(call uint64, ok bool) error {
	p.addReceived(answeredCall{call, ok})
	return nil
}

func (p *fakeProcess) Grant(path string, read bool, _ string, late func()) error {
	if read {
		p.addReceived(readGrant{path})
	} else {
		p.addReceived(writeGrant{path})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lateGrant = late
	return p.grantError
}
func (p *fakeProcess) Close() error { return nil }

func (p *fakeProcess) MeasureUsage(int64) host.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usageCalls++
	return p.usage
}

func (p *fakeProcess) ApplyLimits(_ host.Usage, a host.LimitUpdate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastAllowance = a
}

func (p *fakeProcess) EndLargest(host.Usage, int64) string { return "" }
func (p *fakeProcess) EndNewest(_ host.Usage, tasks int)   { p.addReceived(tasks) }

func (p *fakeProcess) TryRead(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := copy(b, p.output); n > 0 {
		p.output = p.output[n:]
		return n, nil
	}
	select {
	case <-p.exited:
		return 0, io.EOF
	default:
		return 0, nil
	}
}

func (p *fakeProcess) AwaitOutput(take func() bool) error {
	<-p.exited
	take()
	return io.EOF
}

func (p *fakeProcess) WriteInput(b []byte, _ bool) error { p.addReceived(string(b)); return nil }
func (p *fakeProcess) SyncOutput()                       {}
func (p *fakeProcess) Restore() error                    { return nil }
func (p *fakeProcess) Resize(host.Size) error            { return nil }
func (p *fakeProcess) IsRawMode() bool                   { return false }
func (p *fakeProcess) HasForegroundJob() bool            { return false }
func (p *fakeProcess) TypeKeys([]byte) error             { return nil }

func (p *fakeProcess) Readers() []host.TerminalReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scanCount++
	return p.blockedReaders
}

func (p *fakeProcess) HasNoOtherReader() bool { return true }

// submitTurn starts a turn, which must be accepted.
func submitTurn(t *testing.T, s *Session, code string) uint64 {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// pollReply returns what a Wait for a turn returns at once.
func pollReply(t *testing.T, s *Session, turn uint64) session.Reply {
	t.Helper()
	synctest.Wait()
	r, err := s.Wait(t.Context(), turn, &session.WaitOptions{Poll: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lastWorkerExit returns how the last worker ended.
func lastWorkerExit(t *testing.T, s *Session) timeline.WorkerExited {
	t.Helper()
	synctest.Wait()
	var last timeline.WorkerExited
	for _, e := range s.Log().EventsSince(0) {
		if end, ok := e.Body.(timeline.WorkerExited); ok {
			last = end
		}
	}
	return last
}
