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
	t       *testing.T
	conn    *ipc.Conn // the worker's end
	born    time.Time
	exited  chan struct{}
	notices chan string

	mu      sync.Mutex
	heard   []heard
	reading []host.Reader
	output  []byte // that nobody has read from its terminal
	looks   int
	unsent  chan struct{} // signals are under way until it is closed; nil when none is
	dies    host.Signal   // the first that ends it
	noGrant error         // the answer to Grant
	late    func()        // of the last Grant
	exit    host.Exit

	usage    host.Usage
	measured int            // how often usage was asked for
	allowed  host.Allowance // the last
	once     sync.Once
}

// heard is what reached a fake worker: a frame or a signal.
type heard struct {
	at   time.Duration
	what any
}

// A sent is a signal.
type sent struct {
	sig host.Signal
	to  host.Target
}

// inBubble runs a test in fake time, with a session whose worker says nothing but
// what the test says.
func inBubble(t *testing.T, o *Options, spec workers.Spec, test func(*testing.T, *Session, *fakeProcess)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Dir = t.TempDir()
		sup, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var p *fakeProcess
		sup.launcher = func(*host.Command) (*launched, error) {
			var l *launched
			p, l = launchFake(t)
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

func launchFake(t *testing.T) (*fakeProcess, *launched) {
	ours, theirs := net.Pipe()
	p := &fakeProcess{
		t:       t,
		conn:    ipc.NewConn(theirs, ipc.FromSupervisor),
		born:    time.Now(),
		exited:  make(chan struct{}),
		notices: make(chan string),
		dies:    host.Kill,
	}
	go func() {
		for {
			m, err := p.conn.Receive()
			if err != nil {
				p.hear(err)
				return
			}
			p.hear(m)
		}
	}()
	return p, &launched{process: p, channel: ours, terminal: p, readers: p, gate: p, nonce: "0123456789abcdef", staged: true, pid: 1}
}

func (p *fakeProcess) hear(what any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, heard{time.Since(p.born), what})
}

// say has the worker send frames, and waits until all has come of them that can.
func (p *fakeProcess) say(frames ...ipc.Message) {
	p.t.Helper()
	for _, f := range frames {
		if err := p.conn.Send(f); err != nil {
			p.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// ready is what a worker says that starts and has nothing to run.
func (p *fakeProcess) ready() {
	p.t.Helper()
	p.say(p.hello(), ipc.Idle{Outcome: ipc.OutcomeOK, Prompt: "> "})
}

// change changes the state of the process.
func (p *fakeProcess) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *fakeProcess) hello() ipc.Message {
	return ipc.WorkerReady{
		Protocol:     ipc.Protocol{Name: ipc.ProtocolName, Version: ipc.ProtocolVersion},
		Capabilities: ipc.Capabilities{Interrupt: ipc.InterruptBySignal},
	}
}

// readsBehindAMark has a child read the terminal, behind the marker of a frame that has not come: mark 1.
func (p *fakeProcess) readsBehindAMark() {
	p.change(func() {
		p.output = []byte("\x1b_0123456789abcdef;#1\x1b\\behind")
		p.reading = []host.Reader{{Key: "cat", Command: "cat"}}
	})
}

// later lets fake time pass, and all happen that is due in it.
func (p *fakeProcess) later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// take returns what reached the worker since the last call.
func (p *fakeProcess) take() []heard {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.heard
	p.heard = nil
	return all
}

// frames returns the frames of a kind that reached the worker, and when they did.
func frames[M ipc.Message](all []heard) (got []M, at []time.Duration) {
	for _, h := range all {
		if m, ok := h.what.(M); ok {
			got, at = append(got, m), append(at, h.at)
		}
	}
	return got, at
}

func (p *fakeProcess) end(e host.Exit) {
	p.once.Do(func() {
		p.exit = e
		go func() { _ = p.conn.Close() }()
		close(p.notices)
		close(p.exited)
	})
}

func (p *fakeProcess) Signal(sig host.Signal, to host.Target) error {
	p.hear(sent{sig, to})
	p.mu.Lock()
	ends := sig != host.Interrupt && sig >= p.dies
	p.mu.Unlock()
	if ends {
		p.end(host.Exit{Signal: sig.String()})
	}
	return nil
}

func (p *fakeProcess) SignalsSent() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unsent
}

func (p *fakeProcess) Kill() { _ = p.Signal(host.Kill, host.Group) }

func (p *fakeProcess) Exited() <-chan struct{}    { return p.exited }
func (p *fakeProcess) Exit() host.Exit            { return p.exit }
func (p *fakeProcess) Gone() <-chan struct{}      { return p.exited }
func (p *fakeProcess) Remains() []int             { return nil }
func (p *fakeProcess) Notices() <-chan string     { return p.notices }
func (p *fakeProcess) MemoryBytes() int64         { return 0 }
func (p *fakeProcess) CatchUp()                   {}
func (p *fakeProcess) Forget() error              { return nil }
func (p *fakeProcess) Refresh() ([]string, error) { return nil, nil }

// A permitted is the answer to a held call.
type permitted struct {
	call uint64
	ok   bool
}

// A granted is what the sandbox was given to write, and a shown what it was given to read.
type (
	granted struct{ dir string }
	shown   struct{ path string }
)

func (p *fakeProcess) Permit(call uint64, ok bool) error { p.hear(permitted{call, ok}); return nil }

func (p *fakeProcess) Grant(path string, read bool, _ string, late func()) error {
	if read {
		p.hear(shown{path})
	} else {
		p.hear(granted{path})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
	return p.noGrant
}
func (p *fakeProcess) Close() error { return nil }

func (p *fakeProcess) Usage(int64) host.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measured++
	return p.usage
}

func (p *fakeProcess) Allow(_ host.Usage, a host.Allowance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = a
}

func (p *fakeProcess) EndLargest(host.Usage, int64) string { return "" }
func (p *fakeProcess) EndNewest(_ host.Usage, tasks int)   { p.hear(tasks) }

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

func (p *fakeProcess) Await(take func() bool) error {
	<-p.exited
	take()
	return io.EOF
}

func (p *fakeProcess) Feed(b []byte, _ bool) error { p.hear(string(b)); return nil }
func (p *fakeProcess) Sync()                       {}
func (p *fakeProcess) Restore() error              { return nil }
func (p *fakeProcess) Resize(host.Size) error      { return nil }
func (p *fakeProcess) Screen() bool                { return false }
func (p *fakeProcess) Lent() bool                  { return false }
func (p *fakeProcess) Keys([]byte) error           { return nil }

func (p *fakeProcess) Readers() []host.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	return p.reading
}

func (p *fakeProcess) NoOtherReader() bool { return true }

// submit starts a turn, which must be accepted.
func submit(t *testing.T, s *Session, code string) uint64 {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// now returns what a Wait for a turn returns at once.
func now(t *testing.T, s *Session, turn uint64) session.Reply {
	t.Helper()
	synctest.Wait()
	r, err := s.Wait(t.Context(), turn, &session.WaitOptions{Poll: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// report returns how the last worker ended.
func report(t *testing.T, s *Session) timeline.WorkerExited {
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
