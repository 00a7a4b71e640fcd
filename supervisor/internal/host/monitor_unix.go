//go:build linux || darwin

package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// monitorName is argv[0] of a stage. The stage gets no other argument, and only monitorEnv
// as its environment. The worker's come over a pipe, so that settings of users for
// their Go programs do not reach the stage.
const monitorName = "turnstone-stage"

// monitorEnv keeps a stage small and quiet: instead of every two minutes, it collects
// garbage only after tens of thousands of orders. It has one processor, so it need not open the files that
// say how many its control group allows. worker is the worker's environment; it
// names the directory for coverage data, if the program was built to measure coverage.
func monitorEnv(worker []string) []string {
	return append([]string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0", "GOGC=off", "GOMEMLIMIT=24MiB"}, coverageEnv(worker)...)
}

// The stage's descriptors beside 0, 1 and 2, which are the terminal.
const (
	fdCommands  = 3 // orders from the supervisor
	fdEvents    = 4 // reports to it
	fdWorkerIn  = 5 // becomes the worker's 3
	fdWorkerOut = 6 // becomes the worker's 4
	fdEgress    = 7 // where connections leave a sandbox, if it has an outlet
)

// killTimeout is how long the stage tries to end a tree.
const killTimeout = time.Second

func isMonitor() bool { return len(os.Args) == 1 && os.Args[0] == monitorName }

// init runs a stage before most of the program is made ready, which would take more memory than
// all of a stage, in every session. See MonitorMain.
func init() {
	if isMonitor() {
		runMonitor()
	}
}

// A monitor is the parent of one worker: it starts the worker, forwards signals to it,
// sees how it ends, and leaves nothing of it behind. One goroutine does all of this. It
// alone reaps, so a pid that it signals is never stale.
type monitor struct {
	eventEncoder *json.Encoder
	eventMu      sync.Mutex            // held while a report is written
	commands     <-chan monitorCommand // closes when the supervisor is gone
	childSignals chan os.Signal        // SIGCHLD; one pending is enough
	resumeTimer  *time.Timer           // fires when a stopped worker may go on

	tree       processTree
	worker     int // its pid and its process group; 0 once reaped
	isEnding   bool
	oomCounter oomCounter
	sandbox    sandboxHandle // the sandbox; nil without one
	notices    [][]byte      // of it
	stopCount  int           // continuations in a row
	lastStop   time.Time     // the last one
}

// runMonitor is the whole life of a stage. The order of its steps matters, and
// a step that fails ends the start with its name. The session and its terminal
// were made by the supervisor, in the fork.
func runMonitor() {
	s := &monitor{
		eventEncoder: json.NewEncoder(os.NewFile(fdEvents, "up")),
		childSignals: make(chan os.Signal, 1),
		resumeTimer:  time.NewTimer(time.Hour),
	}
	s.resumeTimer.Stop()

	// 1. The worker inherits 0, 1 and 2, and only those other descriptors that it must have.
	s.exitOnError("descriptors", "", closeOnExec())

	// 2. Signals: the stage survives signals that are meant for the worker, and the
	// worker starts with default dispositions even if our parent ignored some.
	// Handlers do both, because exec resets a handler but keeps SIG_IGN. Only the
	// signals that need a handler get one: each costs a tenth of a millisecond.
	survived := append(ignoredSignals(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), survived...) // nobody listens
	signal.Notify(s.childSignals, syscall.SIGCHLD)

	// 3. The worker inherits this thread's mask: none.
	s.exitOnError("signals", "", clearSignalMask())

	// 4. The stage adopts orphans of the tree, if the system can do that.
	s.exitOnError("subreaper", "", adoptOrphans())

	// 5. The plan.
	_ = unix.SetNonblock(fdCommands, true) // or a thread would wait in each read
	down := json.NewDecoder(os.NewFile(fdCommands, "down"))
	var first monitorCommand
	if err := down.Decode(&first); err != nil || first.Kind != commandStart || first.Plan == nil {
		exit(1) // no supervisor that would read a report
	}
	plan := first.Plan

	// 6. The directory: changed here and not in the fork, so that a failure is
	// not taken for one of exec.
	if len(plan.Dir) > 0 {
		s.exitOnError("chdir", string(plan.Dir), os.Chdir(string(plan.Dir)))
	}

	// 7. The processors and the sandbox, of this thread and so of the worker. No other thread
	// may be made from one that differs from the others.
	if plan.Sandbox != nil || plan.Limits.CPUs > 0 || len(plan.CPUs) > 0 {
		runtime.LockOSThread()
	}
	s.exitOnError("limits", "", setCPUAffinity(plan.CPUs, plan.Limits.CPUs))
	group, err := plan.openCgroupSwitch()
	s.exitOnError("limits", string(plan.WorkerCgroup), err)
	s.enterSandbox(plan)
	if plan.Limits.Disk > 0 { // a write beyond the limit is an error of the language, not the end of it
		signal.Ignore(unix.SIGXFSZ)
	}

	// 8. The worker, in a process group of its own, and in its control group from the first moment.
	s.exitOnError("limits", string(plan.WorkerCgroup), group.joinWorkerGroup())
	pid, err := syscall.ForkExec(string(plan.Path), toStrings(plan.Args), &syscall.ProcAttr{
		Env:   toStrings(plan.Env),
		Files: plan.fileDescriptors(),
		Sys:   workerAttributes(),
	})
	s.exitOnError("exec", string(plan.Path), err)
	s.exitOnError("limits", string(plan.MonitorCgroup), group.rejoinMonitorGroup())
	s.worker = pid
	s.tree = processTree{root: os.Getpid(), session: os.Getpid(), tag: plan.Tag}
	unix.Close(fdWorkerIn)
	unix.Close(fdWorkerOut)
	limited := make(chan error, 1) // by another thread: this one's filter would hold the call, and with it whoever answers that
	go func() { limited <- setRlimits(pid, plan, s.sandbox != nil) }()
	if err := <-limited; err != nil && !errors.Is(err, unix.ESRCH) { // else it has ended already
		unix.Kill(-s.worker, unix.SIGKILL)
		s.exitOnError("limits", "", err)
	}

	// 9. The terminal is given to the worker. If the worker was faster and has
	// touched it, SIGTTIN or SIGTTOU has stopped it, and handleWorkerStop continues it.
	// Setting the group from the background needs SIGTTOU ignored. No process is
	// started after this that could inherit that.
	signal.Ignore(syscall.SIGTTOU)
	if err := s.setForeground(); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		unix.Kill(-s.worker, unix.SIGKILL)
		s.exitOnError("foreground", "", err)
	} // ESRCH and EPERM: its group is gone, it has ended already

	// 10. Report the start, then serve.
	s.sendEvent(monitorEvent{Kind: eventStarted, PID: s.outerPID(pid), Notices: s.notices})
	os.Chdir("/") // do not keep the user's directory busy after the worker left it
	s.oomCounter = newOOMCounter(plan)
	if s.sandbox != nil {
		surviveSignals()
	}
	releaseImagePages()
	s.commands = s.receiveCommands(down)
	s.serve()
}

// fileDescriptors are the descriptors that the worker gets as its 0, 1, 2 and so on.
func (p *workerCommand) fileDescriptors() []uintptr {
	if p.ChannelOnStdio {
		return []uintptr{fdWorkerIn, fdWorkerOut, 2}
	}
	return []uintptr{0, 1, 2, fdWorkerIn, fdWorkerOut}
}

// exitOnError ends the stage with a report if a step failed.
func (s *monitor) exitOnError(step, path string, err error) {
	if err == nil {
		return
	}
	s.sendEvent(newFailedEvent(step, path, err))
	exit(1)
}

// exit skips the usual work at the end of a program. Here that would only be tools
// (coverage, the race detector), which are slow or write to the worker's terminal.
func exit(code int) { syscall.Exit(code) }

// sendEvent ignores errors: if the supervisor is gone, end of file on the other pipe ends
// the stage.
func (s *monitor) sendEvent(r monitorEvent) {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	_ = s.eventEncoder.Encode(r)
}

// receiveCommands forwards orders until the pipe ends. Those for the sandbox are obeyed here: a grant need
// not wait until the thread of the worker runs. A signal is sent before they are, because an
// interrupt must reach a held call before its refusal does. The goroutine ends with the process.
func (s *monitor) receiveCommands(down *json.Decoder) <-chan monitorCommand {
	c := make(chan monitorCommand)
	go func() {
		defer close(c)
		for {
			var o monitorCommand
			if down.Decode(&o) != nil {
				return
			}
			if s.handleSandboxCommand(o) {
				continue
			}
			c <- o
			if s.sandbox != nil {
				c <- monitorCommand{} // asks nothing, and is taken once o was obeyed
			}
		}
	}()
	return c
}

// serve ends the process when the worker has ended or must end.
func (s *monitor) serve() {
	for {
		select {
		case <-s.childSignals:
			s.reapChildren()
			if s.worker == 0 {
				s.endTree()
			}
		case o, ok := <-s.commands:
			if !ok {
				s.endTree()
			}
			s.handleCommand(o)
		case <-s.resumeTimer.C:
			s.resumeWorker()
		}
	}
}

func (s *monitor) handleCommand(o monitorCommand) {
	switch o.Kind {
	case commandSignal:
		s.deliverSignal(syscall.Signal(o.Signal), o.To)
		s.sendEvent(monitorEvent{Kind: eventSignalSent})
	case commandSetForeground:
		r := monitorEvent{Kind: eventForegroundSet}
		if no, ok := errors.AsType[syscall.Errno](s.setForeground()); ok {
			r.Errno = int(no)
		}
		s.sendEvent(r)
	case commandKill:
		s.endTree()
	}
}

// deliverSignal ignores errors: it fails only when the target is gone. Code may have stopped the terminal's
// output (tcflow), and what a signal ends has something to say.
func (s *monitor) deliverSignal(sig syscall.Signal, to Target) {
	_ = resumeOutput(0)
	switch to {
	case Worker:
		unix.Kill(s.worker, sig)
	case Group:
		unix.Kill(-s.worker, sig)
	case Foreground:
		group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		if err == nil && group > 0 && group != s.worker && group != unix.Getpgrp() {
			unix.Kill(-group, sig)
		}
	}
}

// setForeground makes the worker's group the one that may use the terminal.
func (s *monitor) setForeground() error {
	return retryEINTR(func() error { return unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, s.worker) })
}

// reapChildren collects everything that has ended or stopped by now.
func (s *monitor) reapChildren() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, &usage)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == 0: // no children, or none with news
			return
		case pid != s.worker: // an orphan that the stage had adopted
		case status.Stopped():
			s.handleWorkerStop(status.StopSignal())
		default:
			e := newExit(status, &usage)
			if e.Signal == "SIGKILL" && !s.isEnding && s.oomCounter.hasIncreased() {
				e.OOM, e.MemoryLimit = true, s.oomCounter.limit
			}
			s.worker = 0
			s.sendEvent(monitorEvent{Kind: eventExited, Exit: &e})
		}
	}
}

// handleWorkerStop continues a stopped worker, because there is no shell in which a person
// could do it. A worker that stops again and again is continued after 1, 2, 4, … ms, up
// to 1 s, so that it cannot keep the stage busy.
func (s *monitor) handleWorkerStop(sig syscall.Signal) {
	if s.isEnding {
		return
	}
	group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && group != s.worker {
		_ = s.setForeground()
	}
	if !wantsTerminal || group != s.worker { // otherwise it was just faster than step 9
		s.sendEvent(monitorEvent{Kind: eventStopped, Signal: unix.SignalName(sig)})
	}
	if time.Since(s.lastStop) > 2*time.Second {
		s.stopCount = 0
	}
	if s.stopCount == 0 {
		s.resumeWorker()
	} else {
		s.resumeTimer.Reset(time.Millisecond << min(s.stopCount-1, 10))
	}
	s.stopCount++
	s.lastStop = time.Now()
}

// resumeWorker continues the whole group, since terminals and shells stop groups.
func (s *monitor) resumeWorker() {
	if s.worker != 0 {
		unix.Kill(-s.worker, unix.SIGCONT)
		unix.Kill(s.worker, unix.SIGCONT) // in case it has left its group
	}
}

// endTree kills everything, reports, and ends the process.
func (s *monitor) endTree() {
	s.isEnding = true
	remains := killRemaining(killTimeout, s.tree.visitMembers, func(wait time.Duration) {
		select {
		case <-s.childSignals:
		case <-time.After(wait):
		}
		s.reapChildren()
	})
	s.sendEvent(monitorEvent{Kind: eventTreeEmpty, Survivors: remains})
	exit(0)
}

// closeOnExec marks every descriptor from 3 on.
func closeOnExec() error {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func newExit(status syscall.WaitStatus, u *syscall.Rusage) Exit {
	e := Exit{
		Code:      status.ExitStatus(),
		PeakRSS:   int64(u.Maxrss) * maxrssUnit,
		UserCPU:   time.Duration(u.Utime.Nano()),
		SystemCPU: time.Duration(u.Stime.Nano()),
	}
	if status.Signaled() {
		e.Code, e.Signal = -1, unix.SignalName(status.Signal())
	}
	return e
}
