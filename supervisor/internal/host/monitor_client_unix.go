//go:build linux || darwin

package host

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

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
)

// monitorEndTimeout bounds the time in which a monitor ends a tree, a little more than the
// monitor allows itself. Then the monitor is killed, and the rest of closeTimeout is for the
// processes that are left.
const monitorEndTimeout = killTimeout + killTimeout/2

// monitorClient is the backend of a worker that was started by its monitor.
type monitorClient struct {
	monitor childProcess
	down    *Channel // commands to the monitor, events from it
	events  eventReader
	pty     *ptyMaster
	tree    processTree

	signalCounter
	commandMu         sync.Mutex // held while a command is written
	partialCommand    bool       // guarded by commandMu; the monitor has received only part of a command
	log               monitorLog
	cgroup            *cgroup // nil without one
	limits            ProcessLimits
	sandboxConfig     *SandboxConfig // nil without a sandbox
	isConfined        bool
	sandboxPlan       *confine.Plan  // nil without one
	onDenial          func(Denial)   // may be nil
	notices           []string       // of the sandbox
	earlyDenials      []monitorEvent // denials from before the started event; for run
	foregroundAnswers chan error     // answers to commandSetForeground; holds one
	grants            pendingGrants
	appliedLimits
	exitFacts
	endOnce  sync.Once
	watchdog *time.Timer // kills a monitor that does not end; set by startWatchdog
}

// appliedLimits records the limits that applyLimits has set last.
type appliedLimits struct {
	limitsMu       sync.Mutex
	lastDataBytes  map[int]int64 // of each process when limits were last applied; guarded by limitsMu
	tasksCountedAt time.Time     // when the user's tasks were last counted; guarded by limitsMu
	maxTasks       uint64        // the bound for the user's tasks that applies to the tree; guarded by limitsMu
}

// maxEarlyDenials bounds the denials of a worker that the monitor has not yet reported as
// started. That event follows within milliseconds.
const maxEarlyDenials = 10_000

// An exitFacts collects what the monitor's last events say about a worker's end. events.mu guards it.
type exitFacts struct {
	onExit             func(Exit) // nil until run
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
	l.pty.workerGroup = pid
	l.pty.setForeground = s.setForeground
	return s, pid, nil
}

func (l *workerLaunch) startMonitor() (_ *monitorClient, err error) {
	fail := func(err error) (*monitorClient, error) { return nil, &StartError{Step: "monitor", Err: err} }
	self, err := monitorExecutable()
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
	files := []*os.File{l.slave, l.slave, l.slave, commandsOut, eventsIn, l.workerIn, l.workerOut} // fdCommands…
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
		l.egressConn, files = ours, append(files, theirs) // fdEgress
	}
	monitor, err := startChild(self, []string{monitorName}, &os.ProcAttr{Env: monitorEnv(l.env), Files: files, Sys: attr})
	if err != nil {
		down.Close()
		if l.command.Sandbox.hasNamespaces() {
			return nil, &StartError{Step: "sandbox: user namespace", Err: unwrapPathError(err)}
		}
		return fail(err)
	}
	pid := monitor.pid()
	return &monitorClient{
		monitor: monitor, down: down, events: eventReader{raw: up}, pty: l.pty,
		tree:              processTree{root: pid, session: pid, tag: l.tag},
		foregroundAnswers: make(chan error, 1), isConfined: l.command.Sandbox.hasNamespaces(), onDenial: l.command.OnDenial,
		limits: l.command.Limits, sandboxConfig: l.command.Sandbox, appliedLimits: appliedLimits{maxTasks: math.MaxUint64},
		log: newMonitorLog(l.command.Logger),
	}, nil
}

// startWorker sends the plan and waits for the answer, for Command.Timeout at most.
func (s *monitorClient) startWorker(l *workerLaunch) (pid int, err error) {
	c := l.command
	if c.Sandbox != nil {
		if s.sandboxPlan, err = c.Sandbox.Plan(); err != nil {
			return 0, err
		}
	}
	deadline := time.Now().Add(c.startTimeout())
	s.down.out.SetWriteDeadline(deadline)
	s.down.in.SetReadDeadline(deadline)
	defer s.down.in.SetReadDeadline(time.Time{})
	ctx := c.Context
	if ctx == nil {
		ctx = context.Background()
	}
	stopCancel := context.AfterFunc(ctx, func() {
		s.down.out.SetWriteDeadline(time.Now())
		s.down.in.SetReadDeadline(time.Now())
	})
	defer stopCancel()
	s.setUpCgroup(ctx, l)
	group, home := s.cgroup.groupDirs()
	start := monitorCommand{Kind: commandStart, Plan: &workerCommand{
		Path: []byte(c.Path),
		Args: toByteSlices(append([]string{c.Path}, c.Args...)),
		Env:  toByteSlices(l.env),
		Dir:  []byte(c.Dir),
		Tag:  l.tag,

		ChannelOnStdio: c.ChannelOnStdio,
		Sandbox:        s.sandboxPlan,
		Limits:         c.Limits,
		CPUs:           c.CPUs,
		WorkerCgroup:   group,
		MonitorCgroup:  home,
		MaxUserTasks:   s.cgroup.taskLimit(c.Limits, c.Sandbox),
	}}
	s.log.logCommand(start)
	err = json.NewEncoder(s.down).Encode(start)
	var event monitorEvent
	if err == nil || errors.Is(err, syscall.EPIPE) { // a monitor that failed early has reported why
		err = s.events.handleUntil(func(next monitorEvent) bool {
			if next.Kind == eventDenied { // the worker may be faster than the monitor
				s.earlyDenials = append(s.earlyDenials, next)
				return len(s.earlyDenials) < maxEarlyDenials
			}
			if next.Kind == eventFilesChanged { // the plan is still new
				return true
			}
			event = next
			return false
		})
		s.log.logEvent(event)
	}
	switch {
	case !stopCancel():
		err = ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not start the worker within %s; a slow machine needs a longer StartTimeout", c.startTimeout())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ended before it started the worker: the limit on memory or processes is too low (ulimit -v, ulimit -u), or code runs before MonitorMain in main")
	case len(s.earlyDenials) == maxEarlyDenials:
		err = fmt.Errorf("the sandbox refused %d calls before the monitor had started the worker", maxEarlyDenials)
	case err == nil && event.Kind == eventStarted:
		s.notices = toStrings(event.Notices)
		return event.PID, nil
	case err == nil:
		return 0, event.startError()
	}
	return 0, &StartError{Step: "monitor", Err: err}
}

// setUpCgroup creates the worker's control group, or records what its memory limit does not count.
func (s *monitorClient) setUpCgroup(ctx context.Context, l *workerLaunch) {
	var err error
	limits := l.command.Limits
	if s.cgroup, err = newCgroup(ctx, s.tree.root, l.tag, limits, l.command.RuntimeDir); s.cgroup == nil {
		l.uncountedMemory = uncountedMemory(l.command, err)
	} else if s.sandboxPlan != nil && limits.Memory > 0 && limits.Disk == 0 { // a refusal by the sandbox's own limits is an error in the language
		s.sandboxPlan.Shared, s.sandboxPlan.Objects = limits.Memory, limits.Memory
	}
}

// abandonStart ends a monitor that did not start its worker, or not in time.
func (s *monitorClient) abandonStart() {
	s.down.out.Close() // tells the monitor to end everything
	s.startWatchdog()
	s.reapMonitor(false)
}

// startWatchdog starts the timer that kills a monitor if it does not end in time.
func (s *monitorClient) startWatchdog() {
	s.endOnce.Do(func() {
		s.watchdog = time.AfterFunc(monitorEndTimeout, func() { s.monitor.kill() })
	})
}

// commandTimeout bounds the time in which the monitor reads a whole command.
const commandTimeout = 2 * time.Second

// errPartialCommand means that no command can be sent: the monitor would take it for the rest of another.
var errPartialCommand = errors.New("host: the monitor received only part of a command and can get no more; reset the session")

// sendCommand sends a command. Small ones fit into the pipe at once or not at all. A grant may
// be larger than the pipe, which is small if the user has many pipes: then it is written as
// the monitor reads.
func (s *monitorClient) sendCommand(command monitorCommand) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	s.commandMu.Lock()
	defer s.commandMu.Unlock()
	if s.partialCommand {
		return errPartialCommand
	}
	s.log.logCommand(command)
	line = append(line, '\n')
	n, err := s.down.TryWrite(line)
	if err == nil && n < len(line) && (n > 0 || len(line) > pipeBufBytes) {
		var more int
		more, err = s.down.writeWithin(commandTimeout, line[n:])
		n += more
	}
	s.partialCommand = n > 0 && n < len(line)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		return ErrEnded
	case s.partialCommand:
		return errPartialCommand
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && n < len(line):
		return errors.New("host: the monitor accepts no commands: it is stopped or stuck")
	}
	return err
}

func (s *monitorClient) sendSignal(sig Signal, to Target) error {
	return s.runCounted(func() error {
		return s.sendCommand(monitorCommand{Kind: commandSignal, Signal: int(systemSignal(sig)), To: to})
	})
}

func (s *monitorClient) killTree() {
	if s.sendCommand(monitorCommand{Kind: commandKill}) != nil {
		s.monitor.kill()
	}
	s.startWatchdog()
}

// setForeground asks the monitor to give the terminal to the worker's group and waits for
// the answer, because the next turn must find it done.
func (s *monitorClient) setForeground() error {
	select {
	case <-s.foregroundAnswers: // of a request that timed out
	default:
	}
	if err := s.sendCommand(monitorCommand{Kind: commandSetForeground}); err != nil {
		return err
	}
	select {
	case err := <-s.foregroundAnswers:
		return err
	case <-time.After(time.Second):
		return errors.New("the monitor did not answer within 1s")
	}
}

func (s *monitorClient) run(ended func(Exit), notice func(string)) (remains []int) {
	for _, n := range s.notices {
		notice(n)
	}
	s.startHandling(ended, notice)
	_ = s.events.handleUntil(s.handleEvent)
	s.events.mu.Lock()
	exited, empty, remains := s.hasExited, s.isEmpty, s.survivors
	s.onExit = nil
	s.events.mu.Unlock()
	if !empty {
		remains = s.reapMonitor(true)
	} else {
		s.reapMonitor(false)
	}
	if !exited {
		ended(Exit{Code: -1, Signal: "SIGKILL", MonitorKilled: true})
	}
	return awaitProcessEnd(remains, dyingTimeout)
}

// startHandling starts to handle events, first the denials from before the started event.
func (s *monitorClient) startHandling(ended func(Exit), notice func(string)) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	s.onExit, s.onNotice = ended, notice
	for _, r := range s.earlyDenials {
		s.handleEvent(r)
	}
	s.earlyDenials = nil
}

// drainEvents handles the available events. It does nothing before and after run.
func (s *monitorClient) drainEvents() {
	s.events.mu.Lock()
	serving := s.onExit != nil
	s.events.mu.Unlock()
	if serving && s.isConfined {
		s.events.handleAvailable(func(e monitorEvent) bool { return s.onExit == nil || s.handleEvent(e) })
	}
}

// handleEvent handles one event. It returns false after the last one.
func (s *monitorClient) handleEvent(event monitorEvent) (more bool) {
	s.log.logEvent(event)
	switch event.Kind {
	case eventStopped:
		s.onNotice("the worker was stopped (" + event.Signal + ") and continued")
	case eventSignalSent:
		s.confirmSent()
	case eventForegroundSet:
		var err error
		if event.Errno != 0 {
			err = syscall.Errno(event.Errno)
		}
		select {
		case s.foregroundAnswers <- err:
		default:
		}
	case eventDenied:
		if s.onDenial != nil && event.Denial != nil {
			s.onDenial(event.Denial.toDenial())
		}
	case eventFilesChanged:
		go s.protectNewSettings() // it may ask git
	case eventGranted:
		s.grants.handleAnswer(&event)
	case eventExited:
		s.startWatchdog()
		s.hasExited = true
		s.onExit(*event.Exit)
	case eventTreeEmpty:
		if s.isEmpty = true; !s.isConfined { // otherwise the kernel lets nothing outlive the monitor
			s.survivors = event.Survivors
		}
	}
	return !s.isEmpty
}

// reapMonitor reaps the monitor and releases its resources. If killed is set, the monitor was
// killed. The kernel has then killed the worker with it, and the rest of the tree is found by
// session and tag.
func (s *monitorClient) reapMonitor(killed bool) (remains []int) {
	if killed {
		s.monitor.kill()
	}
	s.startWatchdog()
	s.monitor.wait()
	s.watchdog.Stop()
	s.cgroup.removeDir()
	s.down.Close()
	if killed {
		remains = killRemaining(closeTimeout-monitorEndTimeout, s.tree.visitTable, time.Sleep)
	}
	return remains
}

func (s *monitorClient) memoryBytes() int64            { return s.tree.residentMemory() }
func (s *monitorClient) findReaders() []TerminalReader { return s.pty.findReaders(s.tree.root, true) }
func (s *monitorClient) canSeeReaders() bool           { return canSeeReaders(s.pty.workerGroup) }

func systemSignal(s Signal) syscall.Signal {
	return [...]syscall.Signal{
		Interrupt: syscall.SIGINT, Hangup: syscall.SIGHUP, Terminate: syscall.SIGTERM, Kill: syscall.SIGKILL,
	}[s]
}

// pipeBufBytes is the largest write, in bytes, that Linux makes to a pipe all or nothing (PIPE_BUF in pipe(7)).
const pipeBufBytes = 4096

// writeWithin is Write with a bound on its time.
func (c *Channel) writeWithin(limit time.Duration, b []byte) (int, error) {
	if err := c.out.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer func() { _ = c.out.SetWriteDeadline(time.Time{}) }()
	return c.out.Write(b)
}

// TryWrite writes as much as fits into the pipe now, without waiting. It returns 0 and no
// error if the pipe is full. It must not be called during a Write.
func (c *Channel) TryWrite(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	closed := c.raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case err == syscall.EAGAIN:
		return 0, nil
	}
	return max(n, 0), err
}
