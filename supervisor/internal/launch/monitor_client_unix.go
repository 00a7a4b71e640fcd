//go:build linux || darwin

package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitor"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// monitorEndTimeout bounds the time in which a monitor ends a tree, a little more than the
// monitor allows itself. Then the monitor is killed, and the rest of closeTimeout is for the
// processes that are left.
const monitorEndTimeout = monitor.KillTimeout + monitor.KillTimeout/2

// monitorClient is the backend of a worker that was started by its monitor.
type monitorClient struct {
	monitor childProcess
	down    *Channel // commands to the monitor, events from it
	events  eventReader
	pty     *pty.Master
	tree    proctree.ProcessTree

	signalCounter
	commandMu         sync.Mutex // held while a command is written
	partialCommand    bool       // guarded by commandMu; the monitor has received only part of a command
	log               monitorproto.MonitorLog
	cgroup            *proctree.Cgroup // nil without one
	limits            proctree.ProcessLimits
	sandboxConfig     *SandboxConfig // nil without a sandbox
	isConfined        bool
	sandboxPlan       *plan.Plan                  // nil without one
	onDenial          func(monitorproto.Denial)   // may be nil
	notices           []string                    // of the sandbox
	earlyDenials      []monitorproto.MonitorEvent // denials from before the started event; for run
	foregroundAnswers chan error                  // answers to CommandSetForeground; holds one
	grants            pendingGrants
	appliedLimits
	exitFacts
	endOnce  sync.Once
	watchdog *time.Timer // kills a monitor that does not end; set by startWatchdog
}

// appliedLimits records the limits that applyLimits set last.
type appliedLimits struct {
	limitsMu       sync.Mutex
	lastDataBytes  map[int]int64 // of each process when limits were last applied; guarded by limitsMu
	tasksCountedAt time.Time     // when the user's tasks were last counted; guarded by limitsMu
	maxTasks       uint64        // the bound for the user's tasks that applies to the tree; guarded by limitsMu
}

// maxEarlyDenials bounds the denials of a worker that the monitor has not yet reported as
// started. That event follows within milliseconds.
const maxEarlyDenials = 10_000

// exitFacts collects from the monitor's last events how a worker ended. events.mu guards it.
type exitFacts struct {
	onExit             func(monitorproto.Exit) // nil until run
	onNotice           func(string)
	hasExited, isEmpty bool
	survivors          []int
}

// startMonitored starts the monitor, and through it the worker.
func (l *workerLaunch) startMonitored() (backend, int, error) {
	s, err := l.startMonitor()
	if err != nil {
		return nil, 0, err
	}
	pid, err := s.startWorker(l)
	if err != nil {
		s.abandonStart()
		return nil, 0, err
	}
	l.pty.WorkerGroup = pid
	l.pty.SetForeground = s.setForeground
	return s, pid, nil
}

func (l *workerLaunch) startMonitor() (_ *monitorClient, err error) {
	fail := func(err error) (*monitorClient, error) {
		return nil, &monitorproto.StartError{Step: "monitor", Err: err}
	}
	self, err := monitor.Executable()
	if err != nil {
		return fail(err)
	}
	down, commandsOut, eventsIn, err := openChannel()
	if err != nil {
		return fail(err)
	}
	defer commandsOut.Close()
	defer eventsIn.Close()
	up, err := down.in.SyscallConn()
	if err != nil {
		down.Close()
		return fail(err)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	files := []*os.File{l.slave, l.slave, l.slave, commandsOut, eventsIn, l.workerIn, l.workerOut} // in the order of package monitor's fdCommands…
	if l.command.Sandbox.hasNamespaces() {
		prepareSandbox(attr)
	}
	if l.command.Sandbox != nil && l.command.Sandbox.Egress {
		ours, theirs, err := egressipc.NewPair()
		if err != nil {
			down.Close()
			return fail(err)
		}
		defer theirs.Close()
		l.egressConn, files = ours, append(files, theirs) // fdEgress of package monitor
	}
	monitor, err := startChild(self, []string{monitor.Name}, &os.ProcAttr{Env: monitor.Env(l.env), Files: files, Sys: attr})
	if err != nil {
		down.Close()
		if l.command.Sandbox.hasNamespaces() {
			return nil, &monitorproto.StartError{Step: "sandbox: user namespace", Err: unwrapPathError(err)}
		}
		return fail(err)
	}
	pid := monitor.pid()
	return &monitorClient{
		monitor: monitor, down: down, events: eventReader{raw: up}, pty: l.pty,
		tree:              proctree.ProcessTree{Root: pid, Session: pid, Tag: l.tag},
		foregroundAnswers: make(chan error, 1), isConfined: l.command.Sandbox.hasNamespaces(), onDenial: l.command.OnDenial,
		limits: l.command.Limits, sandboxConfig: l.command.Sandbox, appliedLimits: appliedLimits{maxTasks: math.MaxUint64},
		log: monitorproto.NewMonitorLog(l.command.Logger),
	}, nil
}

// startWorker sends the description of the worker and waits for the answer, for StartConfig.Timeout at most.
func (m *monitorClient) startWorker(l *workerLaunch) (pid int, err error) {
	c := l.command
	if c.Sandbox != nil {
		if m.sandboxPlan, err = c.Sandbox.Plan(); err != nil {
			return 0, err
		}
	}
	deadline := time.Now().Add(c.startTimeout())
	m.down.out.SetWriteDeadline(deadline)
	m.down.in.SetReadDeadline(deadline)
	defer m.down.in.SetReadDeadline(time.Time{})
	ctx := c.Context
	if ctx == nil {
		ctx = context.Background()
	}
	stopCancel := context.AfterFunc(ctx, func() {
		m.down.out.SetWriteDeadline(time.Now())
		m.down.in.SetReadDeadline(time.Now())
	})
	defer stopCancel()
	m.setUpCgroup(ctx, l)
	group, home := m.cgroup.GroupDirs()
	start := monitorproto.MonitorCommand{Kind: monitorproto.CommandStart, Worker: &monitorproto.WorkerCommand{
		Path: []byte(c.Path),
		Args: monitorproto.ToByteSlices(append([]string{c.Path}, c.Args...)),
		Env:  monitorproto.ToByteSlices(l.env),
		Dir:  []byte(c.Dir),
		Tag:  l.tag,

		ChannelOnStdio: c.ChannelOnStdio,
		Sandbox:        m.sandboxPlan,
		Limits:         c.Limits,
		CPUs:           c.CPUs,
		WorkerCgroup:   group,
		MonitorCgroup:  home,
		MaxUserTasks:   userTaskLimit(m.cgroup, c.Limits, c.Sandbox),
	}}
	m.log.LogCommand(start)
	err = json.NewEncoder(m.down).Encode(start)
	var event monitorproto.MonitorEvent
	if err == nil || errors.Is(err, syscall.EPIPE) { // a monitor that failed early has reported why
		err = m.events.handleUntil(func(next monitorproto.MonitorEvent) bool {
			if next.Kind == monitorproto.EventDenied { // the worker may be faster than the monitor
				m.earlyDenials = append(m.earlyDenials, next)
				return len(m.earlyDenials) < maxEarlyDenials
			}
			if next.Kind == monitorproto.EventFilesChanged { // the plan of the sandbox is still new
				return true
			}
			event = next
			return false
		})
		m.log.LogEvent(event)
	}
	switch {
	case !stopCancel():
		err = ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not start the worker within %s; a slow machine needs a longer StartTimeout", c.startTimeout())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ended before it started the worker: the limit on memory or processes is too low (ulimit -v, ulimit -u), or code runs before MonitorMain in main")
	case len(m.earlyDenials) == maxEarlyDenials:
		err = fmt.Errorf("the sandbox refused %d calls before the monitor had started the worker", maxEarlyDenials)
	case err == nil && event.Kind == monitorproto.EventStarted:
		m.notices = monitorproto.ToStrings(event.Notices)
		return event.PID, nil
	case err == nil:
		return 0, event.StartError()
	}
	return 0, &monitorproto.StartError{Step: "monitor", Err: err}
}

// setUpCgroup creates the worker's control group, or records what its memory limit does not count.
func (m *monitorClient) setUpCgroup(ctx context.Context, l *workerLaunch) {
	var err error
	limits := l.command.Limits
	if m.cgroup, err = proctree.NewCgroup(ctx, m.tree.Root, l.tag, limits, l.command.RuntimeDir); m.cgroup == nil {
		l.uncountedMemory = proctree.UncountedMemory(limits.Memory, l.command.Sandbox != nil, err)
	} else if m.sandboxPlan != nil && limits.Memory > 0 && limits.Disk == 0 { // a refusal by the sandbox's own limits is an error in the language
		m.sandboxPlan.Shared, m.sandboxPlan.Objects = limits.Memory, limits.Memory
	}
}

// abandonStart ends a monitor that did not start its worker, or not in time.
func (m *monitorClient) abandonStart() {
	m.down.out.Close() // tells the monitor to end everything
	m.startWatchdog()
	m.reapMonitor(false)
}

// startWatchdog starts the timer that kills a monitor if it does not end in time.
func (m *monitorClient) startWatchdog() {
	m.endOnce.Do(func() {
		m.watchdog = time.AfterFunc(monitorEndTimeout, func() { m.monitor.kill() })
	})
}

// commandTimeout bounds the time in which the monitor reads a whole command.
const commandTimeout = 2 * time.Second

// errPartialCommand means that no command can be sent: the monitor would take it for the rest of another.
var errPartialCommand = errors.New("launch: the monitor received only part of a command and accepts no more commands; reset the session")

// sendCommand sends a command. Small ones fit into the pipe at once or not at all. A grant may be
// larger than the pipe, which is small if the user has many pipes. Such a grant is written in
// pieces, as the monitor reads.
func (m *monitorClient) sendCommand(command monitorproto.MonitorCommand) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	m.commandMu.Lock()
	defer m.commandMu.Unlock()
	if m.partialCommand {
		return errPartialCommand
	}
	m.log.LogCommand(command)
	line = append(line, '\n')
	n, err := m.down.TryWrite(line)
	if err == nil && n < len(line) && (n > 0 || len(line) > pipeBufBytes) {
		var more int
		more, err = m.down.writeWithin(commandTimeout, line[n:])
		n += more
	}
	m.partialCommand = n > 0 && n < len(line)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		return monitorproto.ErrEnded
	case m.partialCommand:
		return errPartialCommand
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && n < len(line):
		return errors.New("launch: the monitor accepts no commands: it is stopped or stuck")
	}
	return err
}

func (m *monitorClient) sendSignal(sig monitorproto.Signal, to monitorproto.Target) error {
	return m.runCounted(func() error {
		return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandSignal, Signal: int(systemSignal(sig)), To: to})
	})
}

func (m *monitorClient) killTree() {
	if m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandKill}) != nil {
		m.monitor.kill()
	}
	m.startWatchdog()
}

// setForeground asks the monitor to give the terminal to the worker's group and waits for
// the answer, because the next turn must find it done.
func (m *monitorClient) setForeground() error {
	select {
	case <-m.foregroundAnswers: // of a request that timed out
	default:
	}
	if err := m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandSetForeground}); err != nil {
		return err
	}
	select {
	case err := <-m.foregroundAnswers:
		return err
	case <-time.After(time.Second):
		return errors.New("the monitor did not answer within 1s")
	}
}

func (m *monitorClient) run(ended func(monitorproto.Exit), notice func(string)) (remains []int) {
	for _, n := range m.notices {
		notice(n)
	}
	m.startHandling(ended, notice)
	_ = m.events.handleUntil(m.handleEvent)
	m.events.mu.Lock()
	exited, empty, remains := m.hasExited, m.isEmpty, m.survivors
	m.onExit = nil
	m.events.mu.Unlock()
	if !empty {
		remains = m.reapMonitor(true)
	} else {
		m.reapMonitor(false)
	}
	if !exited {
		ended(monitorproto.Exit{Code: -1, Signal: "SIGKILL", MonitorKilled: true})
	}
	return proctree.AwaitProcessEnd(remains, proctree.DyingTimeout)
}

// startHandling starts to handle events, first the denials from before the started event.
func (m *monitorClient) startHandling(ended func(monitorproto.Exit), notice func(string)) {
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.onExit, m.onNotice = ended, notice
	for _, r := range m.earlyDenials {
		m.handleEvent(r)
	}
	m.earlyDenials = nil
}

// drainEvents handles the available events. It does nothing before and after run.
func (m *monitorClient) drainEvents() {
	m.events.mu.Lock()
	serving := m.onExit != nil
	m.events.mu.Unlock()
	if serving && m.isConfined {
		m.events.handleAvailable(func(e monitorproto.MonitorEvent) bool { return m.onExit == nil || m.handleEvent(e) })
	}
}

// handleEvent handles one event. It returns false after the last one.
func (m *monitorClient) handleEvent(event monitorproto.MonitorEvent) (more bool) {
	m.log.LogEvent(event)
	switch event.Kind {
	case monitorproto.EventStopped:
		m.onNotice("the worker was stopped (" + event.Signal + ") and continued")
	case monitorproto.EventSignalSent:
		m.confirmSent()
	case monitorproto.EventForegroundSet:
		var err error
		if event.Errno != 0 {
			err = syscall.Errno(event.Errno)
		}
		select {
		case m.foregroundAnswers <- err:
		default:
		}
	case monitorproto.EventDenied:
		if m.onDenial != nil && event.Denial != nil {
			m.onDenial(event.Denial.ToDenial())
		}
	case monitorproto.EventFilesChanged:
		go m.protectNewSettings() // it may ask git
	case monitorproto.EventGranted:
		m.grants.handleAnswer(&event)
	case monitorproto.EventExited:
		m.startWatchdog()
		m.hasExited = true
		m.onExit(*event.Exit)
	case monitorproto.EventTreeEmpty:
		if m.isEmpty = true; !m.isConfined { // otherwise the kernel lets nothing outlive the monitor
			m.survivors = event.Survivors
		}
	}
	return !m.isEmpty
}

// reapMonitor reaps the monitor and releases its resources. If killed is set, the monitor was
// killed. The kernel has then killed the worker with it, and the rest of the tree is found by
// session and tag.
func (m *monitorClient) reapMonitor(killed bool) (remains []int) {
	if killed {
		m.monitor.kill()
	}
	m.startWatchdog()
	m.monitor.wait()
	m.watchdog.Stop()
	m.cgroup.RemoveDir()
	m.down.Close()
	if killed {
		remains = proctree.KillRemaining(closeTimeout-monitorEndTimeout, m.tree.VisitTable, time.Sleep)
	}
	return remains
}

func (m *monitorClient) memoryBytes() int64 { return m.tree.ResidentMemory() }
func (m *monitorClient) findReaders() []pty.TerminalReader {
	return m.pty.FindReaders(m.tree.Root, true)
}
func (m *monitorClient) refreshReader(r pty.TerminalReader) (pty.TerminalReader, pty.PollState) {
	return m.pty.RefreshReader(r)
}
func (m *monitorClient) canSeeReaders() bool { return pty.CanSeeReaders(m.pty.WorkerGroup) }

func systemSignal(s monitorproto.Signal) syscall.Signal {
	return [...]syscall.Signal{
		monitorproto.Interrupt: syscall.SIGINT, monitorproto.Hangup: syscall.SIGHUP, monitorproto.Terminate: syscall.SIGTERM, monitorproto.Kill: syscall.SIGKILL,
	}[s]
}

// pipeBufBytes is the largest write, in bytes, that Linux makes to a pipe all or nothing (PIPE_BUF in pipe(7)).
const pipeBufBytes = 4096
