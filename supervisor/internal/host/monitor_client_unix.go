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

// monitorEndTimeout bounds the time that a stage may take to end a tree, a little more than the
// stage allows itself. Then the stage is killed, and the rest of closeTimeout goes to the
// processes that are left.
const monitorEndTimeout = killTimeout + killTimeout/2

// monitorClient is the backend of a worker that its stage started.
type monitorClient struct {
	monitor childProcess
	down    *Channel // orders to the stage, reports from it
	events  eventReader
	pty     *ptyMaster
	tree    processTree

	signalCounter
	commandMu         sync.Mutex // held while an order is written
	partialCommand    bool       // guarded by ordering; the stage has taken a part of an order
	log               monitorLog
	cgroup            *cgroup // nil without one
	limits            Limits
	sandboxConfig     *Sandbox // likewise
	isConfined        bool
	sandboxPlan       *confine.Plan  // nil without one
	onDenial          func(Denial)   // may be nil
	notices           []string       // of the sandbox
	earlyDenials      []monitorEvent // denials from before the report that the worker has started; for run
	foregroundAnswers chan error     // answers to commandSetForeground; holds one
	grants            pendingGrants
	limitsMu          sync.Mutex
	lastDataBytes     map[int]int64 // of each process, when it was bounded last; guarded by bounding
	tasksCountedAt    time.Time     // when the tasks of the user were counted; guarded by bounding
	maxTasks          uint64        // that the tree may have with them; guarded by bounding
	exitFacts
	endOnce  sync.Once
	watchdog *time.Timer // ends a stage that does not end; set by ending
}

// maxEarlyDenials bounds the denials of a worker that the stage has not yet reported as started. That
// report follows within milliseconds.
const maxEarlyDenials = 10_000

// An exitFacts has the facts that a worker's last reports tell. reports.mu guards it.
type exitFacts struct {
	onExit             func(Exit) // nil until run
	onNotice           func(string)
	hasExited, isEmpty bool
	survivors          []int
}

// startMonitored starts the stage, and through it the worker.
func (l *startAttempt) startMonitored() (backend, int, error) {
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

func (l *startAttempt) startMonitor() (_ *monitorClient, err error) {
	fail := func(err error) (*monitorClient, error) { return nil, &StartError{Step: "stage", Err: err} }
	self, err := monitorExecutable()
	if err != nil {
		return fail(err)
	}
	down, orders, reportsIn, err := openChannel()
	if err != nil {
		return fail(err)
	}
	defer orders.Close()
	defer reportsIn.Close()
	up, err := down.in.SyscallConn()
	if err != nil {
		down.Close()
		return fail(err)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	files := []*os.File{l.slave, l.slave, l.slave, orders, reportsIn, l.workerIn, l.workerOut} // fdCommands…
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
	stage, err := startChild(self, []string{monitorName}, &os.ProcAttr{Env: monitorEnv(l.env), Files: files, Sys: attr})
	if err != nil {
		down.Close()
		if l.command.Sandbox.hasNamespaces() {
			return nil, &StartError{Step: "sandbox: user namespace", Err: unwrapPathError(err)}
		}
		return fail(err)
	}
	pid := stage.pid()
	return &monitorClient{
		monitor: stage, down: down, events: eventReader{raw: up}, pty: l.pty,
		tree:              processTree{root: pid, session: pid, tag: l.tag},
		foregroundAnswers: make(chan error, 1), isConfined: l.command.Sandbox.hasNamespaces(), onDenial: l.command.OnDenial,
		limits: l.command.Limits, sandboxConfig: l.command.Sandbox, maxTasks: math.MaxUint64,
		log: newMonitorLog(l.command.Logger),
	}, nil
}

// startWorker sends the plan and waits for the answer, within Command.Timeout.
func (s *monitorClient) startWorker(l *startAttempt) (pid int, err error) {
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
	givenUp := c.Context
	if givenUp == nil {
		givenUp = context.Background()
	}
	goOn := context.AfterFunc(givenUp, func() {
		s.down.out.SetWriteDeadline(time.Now())
		s.down.in.SetReadDeadline(time.Now())
	})
	defer goOn()
	s.setUpCgroup(givenUp, l)
	group, home := s.cgroup.groupDirs()
	o := monitorCommand{Kind: commandStart, Plan: &workerCommand{
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
	s.log.logCommand(o)
	err = json.NewEncoder(s.down).Encode(o)
	var r monitorEvent
	if err == nil || errors.Is(err, syscall.EPIPE) { // a stage that failed early has told why
		err = s.events.handleUntil(func(next monitorEvent) bool {
			if next.Kind == eventDenied { // the worker may be faster than the stage
				s.earlyDenials = append(s.earlyDenials, next)
				return len(s.earlyDenials) < maxEarlyDenials
			}
			if next.Kind == eventFilesChanged { // the plan is new
				return true
			}
			r = next
			return false
		})
		s.log.logEvent(r)
	}
	switch {
	case !goOn():
		err = givenUp.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not start the worker within %s; a slow machine needs a longer StartTimeout", c.startTimeout())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ended before it started the worker: memory or the number of processes is limited too much (ulimit -v, ulimit -u), or something runs before StageMain in main")
	case len(s.earlyDenials) == maxEarlyDenials:
		err = fmt.Errorf("the sandbox refused %d calls before the stage had started the worker", maxEarlyDenials)
	case err == nil && r.Kind == eventStarted:
		s.notices = toStrings(r.Notices)
		return r.PID, nil
	case err == nil:
		return 0, r.startError()
	}
	return 0, &StartError{Step: "stage", Err: err}
}

// setUpCgroup makes the group of the worker, or says what its limit of memory leaves out.
func (s *monitorClient) setUpCgroup(ctx context.Context, l *startAttempt) {
	var err error
	limits := l.command.Limits
	if s.cgroup, err = newCgroup(ctx, s.tree.root, l.tag, limits, l.command.RuntimeDir); s.cgroup == nil {
		l.uncountedMemory = uncountedMemory(l.command, err)
	} else if s.sandboxPlan != nil && limits.Memory > 0 && limits.Disk == 0 { // what its own limits refuse is an error of the language
		s.sandboxPlan.Shared, s.sandboxPlan.Objects = limits.Memory, limits.Memory
	}
}

// abandonStart ends a stage that did not start its worker, or not in time.
func (s *monitorClient) abandonStart() {
	s.down.out.Close() // to the stage this is an order to end everything
	s.startWatchdog()
	s.reapMonitor(false)
}

// startWatchdog starts the watchdog that kills a stage which does not end in time.
func (s *monitorClient) startWatchdog() {
	s.endOnce.Do(func() {
		s.watchdog = time.AfterFunc(monitorEndTimeout, func() { s.monitor.kill() })
	})
}

// commandTimeout bounds the time in which the stage takes a whole order.
const commandTimeout = 2 * time.Second

// errPartialCommand says that no order can be sent: the stage would take it for the rest of another.
var errPartialCommand = errors.New("host: the stage has taken only a part of an order and can be told nothing more: reset the session")

// sendCommand sends an order. Small ones fit into the pipe at once or not at all. A grant may be larger than the
// pipe, which is small where the user has many: then it is written as the stage reads.
func (s *monitorClient) sendCommand(o monitorCommand) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s.commandMu.Lock()
	defer s.commandMu.Unlock()
	if s.partialCommand {
		return errPartialCommand
	}
	s.log.logCommand(o)
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
		return errors.New("host: the stage does not take orders: it is stopped or stuck")
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

// setForeground asks the stage to give the terminal to the worker's group and waits for
// the answer, because the next turn must find it done.
func (s *monitorClient) setForeground() error {
	select {
	case <-s.foregroundAnswers: // of a question that was given up
	default:
	}
	if err := s.sendCommand(monitorCommand{Kind: commandSetForeground}); err != nil {
		return err
	}
	select {
	case err := <-s.foregroundAnswers:
		return err
	case <-time.After(time.Second):
		return errors.New("the stage did not answer within 1s")
	}
}

func (s *monitorClient) run(ended func(Exit), notice func(string)) (remains []int) {
	for _, n := range s.notices {
		notice(n)
	}
	s.begin(ended, notice)
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

// begin lets reports be taken, and hands on those from before the worker was known to run.
func (s *monitorClient) begin(ended func(Exit), notice func(string)) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	s.onExit, s.onNotice = ended, notice
	for _, r := range s.earlyDenials {
		s.handleEvent(r)
	}
	s.earlyDenials = nil
}

// drainEvents does not take reports before and after run.
func (s *monitorClient) drainEvents() {
	s.events.mu.Lock()
	serving := s.onExit != nil
	s.events.mu.Unlock()
	if serving && s.isConfined {
		s.events.handleAvailable(func(r monitorEvent) bool { return s.onExit == nil || s.handleEvent(r) })
	}
}

// handleEvent handles a report. It returns false after the last one.
func (s *monitorClient) handleEvent(r monitorEvent) (more bool) {
	s.log.logEvent(r)
	switch r.Kind {
	case eventStopped:
		s.onNotice("the worker was stopped (" + r.Signal + ") and continued")
	case eventSignalSent:
		s.confirmSent()
	case eventForegroundSet:
		var err error
		if r.Errno != 0 {
			err = syscall.Errno(r.Errno)
		}
		select {
		case s.foregroundAnswers <- err:
		default:
		}
	case eventDenied:
		if s.onDenial != nil && r.Denial != nil {
			s.onDenial(r.Denial.toDenial())
		}
	case eventFilesChanged:
		go s.protectNewSettings() // it may ask git
	case eventGranted:
		s.grants.handleAnswer(&r)
	case eventExited:
		s.startWatchdog()
		s.hasExited = true
		s.onExit(*r.Exit)
	case eventTreeEmpty:
		if s.isEmpty = true; !s.isConfined { // otherwise the kernel lets nothing outlive the stage
			s.survivors = r.Survivors
		}
	}
	return !s.isEmpty
}

// reapMonitor reaps the stage and releases its resources. If the stage was lost, the kernel
// has killed the worker with it, and the rest of the tree is found by session and tag.
func (s *monitorClient) reapMonitor(lost bool) (remains []int) {
	if lost {
		s.monitor.kill()
	}
	s.startWatchdog()
	s.monitor.wait()
	s.watchdog.Stop()
	s.cgroup.removeDir()
	s.down.Close()
	if lost {
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

// pipeBufBytes is the size up to which Linux writes into a pipe all or nothing, in bytes (PIPE_BUF in pipe(7)).
const pipeBufBytes = 4096

// writeWithin is Write with a bound on its time.
func (c *Channel) writeWithin(limit time.Duration, b []byte) (int, error) {
	if err := c.out.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer func() { _ = c.out.SetWriteDeadline(time.Time{}) }()
	return c.out.Write(b)
}

// TryWrite writes as much as fits into the pipe now, without waiting; 0 and no error
// when it is full. It must not be called during a Write.
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
