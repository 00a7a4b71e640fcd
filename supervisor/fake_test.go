package supervisor

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A fakeProcess replaces a worker's process in tests that use fake time. The test speaks for the
// worker, and reads everything that reached it with the time since its launch.
type fakeProcess struct {
	t          *testing.T
	conn       *ipc.Conn // the worker's end
	launchedAt time.Time
	exited     chan struct{}
	notices    chan string

	mu              sync.Mutex
	received        []receivedItem
	blockedReaders  []pty.TerminalReader
	hasOtherReaders bool
	readsKeys       bool
	echoOff         bool
	pollState       pty.PollState // of threads that are not among blockedReaders
	output          []byte        // not yet read from its terminal
	scanCount       int
	pendingSignals  chan struct{}       // signals are in flight until it is closed; nil without signals
	fatalSignal     monitorproto.Signal // the signal that ended it
	grantError      error               // the answer to Grant
	lateGrant       func()              // callback of the last Grant
	exit            monitorproto.Exit

	usage         proctree.Usage
	usageCalls    int                  // number of calls of MeasureUsage
	lastAllowance proctree.LimitUpdate // argument of the last ApplyLimits
	once          sync.Once
}

// A receivedItem is a frame, signal or call that reached a fake worker, with its time.
type receivedItem struct {
	at   time.Duration
	what any
}

// A sentSignal records a signal and its target.
type sentSignal struct {
	sig monitorproto.Signal
	to  monitorproto.Target
}

// runWithFakeWorker runs a test in fake time, with a session whose worker sends only what the test
// sends.
func runWithFakeWorker(t *testing.T, o *Options, spec workers.Spec, test func(*testing.T, *Session, *fakeProcess)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Dir = t.TempDir()
		sup, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var p *fakeProcess
		sup.launcher = func(*launch.StartConfig) (*launchResult, error) {
			var l *launchResult
			p, l = newFakeProcess(t)
			return l, nil
		}
		defer func() {
			if err := sup.Close(); err != nil {
				t.Error(err)
			}
		}()
		spec.Name, spec.Path = "fake", o.Dir // never executed
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
		fatalSignal: monitorproto.Kill,
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

// sendFrames makes the worker send frames, and waits until all of them have been handled.
func (p *fakeProcess) sendFrames(frames ...ipc.Message) {
	p.t.Helper()
	for _, f := range frames {
		if err := p.conn.Send(f); err != nil {
			p.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// sendReady sends the frames of a worker that starts without start-up code.
func (p *fakeProcess) sendReady() {
	p.t.Helper()
	p.sendFrames(p.readyFrame(), ipc.Idle{Outcome: ipc.OutcomeOK, Prompt: "> "})
}

// withLock runs f while it holds the lock of the process.
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

// readBehindMarker makes a child read the terminal after mark 1, whose frame has not arrived.
func (p *fakeProcess) readBehindMarker() {
	p.withLock(func() {
		p.output = []byte("\x1b_0123456789abcdef;#1\x1b\\behind")
		p.blockedReaders = []pty.TerminalReader{{Key: "cat", Command: "cat"}}
	})
}

// advanceTime advances fake time and waits until everything due has happened.
func (p *fakeProcess) advanceTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// takeReceived returns the items received since the last call.
func (p *fakeProcess) takeReceived() []receivedItem {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.received
	p.received = nil
	return all
}

// receivedFrames returns the received frames of one type and the times at which they arrived.
func receivedFrames[M ipc.Message](all []receivedItem) (got []M, at []time.Duration) {
	for _, h := range all {
		if m, ok := h.what.(M); ok {
			got, at = append(got, m), append(at, h.at)
		}
	}
	return got, at
}

func (p *fakeProcess) exitWith(e monitorproto.Exit) {
	p.once.Do(func() {
		p.exit = e
		go func() { _ = p.conn.Close() }()
		close(p.notices)
		close(p.exited)
	})
}

func (p *fakeProcess) Signal(sig monitorproto.Signal, to monitorproto.Target) error {
	p.addReceived(sentSignal{sig, to})
	p.mu.Lock()
	ends := sig != monitorproto.Interrupt && sig >= p.fatalSignal
	p.mu.Unlock()
	if ends {
		p.exitWith(monitorproto.Exit{Signal: sig.String()})
	}
	return nil
}

func (p *fakeProcess) SignalsSent() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pendingSignals
}

func (p *fakeProcess) Kill() { _ = p.Signal(monitorproto.Kill, monitorproto.Group) }

func (p *fakeProcess) Exited() <-chan struct{}           { return p.exited }
func (p *fakeProcess) Exit() monitorproto.Exit           { return p.exit }
func (p *fakeProcess) Done() <-chan struct{}             { return p.exited }
func (p *fakeProcess) Survivors() []int                  { return nil }
func (p *fakeProcess) Notices() <-chan string            { return p.notices }
func (p *fakeProcess) MemoryBytes() int64                { return 0 }
func (p *fakeProcess) DrainDenials()                     {}
func (p *fakeProcess) ForgetDenials() error              { return nil }
func (p *fakeProcess) RefreshSandbox() ([]string, error) { return nil, nil }

// An answeredCall records the answer to a pending call.
type answeredCall struct {
	call uint64
	ok   bool
}

// A writeGrant records a path granted for writing, and a readGrant a path granted for reading.
type (
	writeGrant struct{ dir string }
	readGrant  struct{ path string }
)

func (p *fakeProcess) AnswerCall(call uint64, ok bool) error {
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

func (p *fakeProcess) MeasureUsage(int64) proctree.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usageCalls++
	return p.usage
}

func (p *fakeProcess) ApplyLimits(_ proctree.Usage, a proctree.LimitUpdate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastAllowance = a
}

func (p *fakeProcess) EndLargest(proctree.Usage, int64) string { return "" }
func (p *fakeProcess) EndNewest(_ proctree.Usage, tasks int)   { p.addReceived(tasks) }

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
func (p *fakeProcess) Resize(pty.TerminalSize) error     { return nil }
func (p *fakeProcess) IsRawMode() bool                   { return false }
func (p *fakeProcess) HasForegroundJob() bool            { return false }
func (p *fakeProcess) TypeKeys(b []byte) error           { p.addReceived(string(b)); return nil }
func (p *fakeProcess) AnswerQuery([]byte) int            { return 0 }
func (p *fakeProcess) UnreadInput() int                  { return 0 }
func (p *fakeProcess) ReturnsOnNewline() bool            { return true }
func (p *fakeProcess) ReadsKeys() bool                   { p.mu.Lock(); defer p.mu.Unlock(); return p.readsKeys }
func (p *fakeProcess) IsEchoOff() bool                   { p.mu.Lock(); defer p.mu.Unlock(); return p.echoOff }

func (p *fakeProcess) RefreshReader(r pty.TerminalReader) (pty.TerminalReader, pty.PollState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.blockedReaders, func(b pty.TerminalReader) bool { return b.Key == r.Key }); i >= 0 {
		return p.blockedReaders[i], pty.Polling
	}
	return r, p.pollState
}

func (p *fakeProcess) Readers() []pty.TerminalReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scanCount++
	return p.blockedReaders
}

func (p *fakeProcess) HasNoOtherReader() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.hasOtherReaders
}

func (p *fakeProcess) EndReaders(s monitorproto.Signal, _ func([]string)) { p.addReceived(s) }

// submitTurn starts a turn and fails the test if it is refused.
func submitTurn(t *testing.T, s *Session, code string) uint64 {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// pollReply returns the current reply of a turn without waiting.
func pollReply(t *testing.T, s *Session, turn uint64) session.Reply {
	t.Helper()
	synctest.Wait()
	r, err := s.Wait(t.Context(), turn, &session.WaitOptions{Poll: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lastWorkerExit returns the event for the end of the last worker.
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
