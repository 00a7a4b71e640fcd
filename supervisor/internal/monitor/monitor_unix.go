//go:build linux || darwin

package monitor

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

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"golang.org/x/sys/unix"
)

// Name is argv[0] of a monitor. A monitor gets no other argument, and only Env as its environment.
// The monitor receives the worker's arguments and environment over a pipe, so that a user's
// settings for Go programs do not affect the monitor.
const Name = "turnstone-monitor"

// Env keeps a monitor small and quiet. It collects garbage only after tens of
// thousands of commands, instead of every two minutes. It has one processor, so it need not
// open the files that say how many its control group allows. worker is the worker's
// environment, which names the directory for coverage data if the program was built to
// measure coverage.
func Env(worker []string) []string {
	return append([]string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0", "GOGC=off", "GOMEMLIMIT=24MiB"}, coverageEnv(worker)...)
}

// The monitor's descriptors besides 0, 1 and 2, which are the terminal.
const (
	fdCommands  = 3 // commands from the supervisor
	fdEvents    = 4 // events to it
	fdWorkerIn  = 5 // becomes the worker's 3
	fdWorkerOut = 6 // becomes the worker's 4
	fdEgress    = 7 // through which connections leave a sandbox, if it allows them
)

// KillTimeout is how long the monitor tries to kill a tree.
const KillTimeout = time.Second

// IsMonitor reports whether this process was started as a monitor.
func IsMonitor() bool { return len(os.Args) == 1 && os.Args[0] == Name }

// init runs a monitor before most of the program is initialized. Initializing the rest would take
// more memory than the whole monitor, in every session. See launch.MonitorMain.
func init() {
	if IsMonitor() {
		Run()
	}
}

// A monitor is the parent of one worker. It starts the worker, forwards signals to it, reports how
// the worker ends, and leaves none of its processes behind. One goroutine does all of this. It
// alone reaps, so a pid that it signals is never stale.
type monitor struct {
	eventEncoder *json.Encoder
	eventMu      sync.Mutex                         // held while an event is written
	commands     <-chan monitorproto.MonitorCommand // closes when the supervisor is gone
	childSignals chan os.Signal                     // SIGCHLD; one pending is enough
	resumeTimer  *time.Timer                        // fires when a stopped worker may continue

	tree       proctree.ProcessTree
	worker     int // its pid and its process group; 0 once reaped
	isEnding   bool
	oomCounter proctree.OOMCounter
	sandbox    sandboxHandle // nil without one
	notices    [][]byte      // of the sandbox
	stopCount  int           // stops in a row
	lastStop   time.Time
}

// Run is the whole life of a monitor. The order of its steps matters, and a step that fails
// ends the start with an error that names it. The supervisor made the session and its terminal, in
// the fork.
func Run() {
	s := &monitor{
		eventEncoder: json.NewEncoder(os.NewFile(fdEvents, "up")),
		childSignals: make(chan os.Signal, 1),
		resumeTimer:  time.NewTimer(time.Hour),
	}
	s.resumeTimer.Stop()
	s.prepareProcess()

	// 5. The command that describes the worker.
	_ = unix.SetNonblock(fdCommands, true) // otherwise each read would block a thread
	down := json.NewDecoder(os.NewFile(fdCommands, "down"))
	var first monitorproto.MonitorCommand
	if err := down.Decode(&first); err != nil || first.Kind != monitorproto.CommandStart || first.Worker == nil {
		exit(1) // no supervisor that would read an event
	}
	command := first.Worker

	group := s.prepareThread(command)
	s.startWorker(command, group)
	s.releaseTerminal()

	// 10. Report the start, then serve.
	s.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventStarted, PID: s.outerPID(s.worker), Notices: s.notices})
	os.Chdir("/") // do not keep the user's directory busy after the worker has left it
	s.oomCounter = proctree.NewOOMCounter(string(command.WorkerCgroup), command.Limits.Memory)
	if s.sandbox != nil {
		surviveSignals()
	}
	releaseImagePages()
	s.commands = s.receiveCommands(down)
	s.serve()
}

// prepareProcess sets what the worker inherits, before its command is known.
func (m *monitor) prepareProcess() {
	// 1. The worker inherits 0, 1 and 2, and only those other descriptors that it needs.
	m.exitOnError("descriptors", "", closeOnExec())

	// 2. Signals: the monitor survives signals that are meant for the worker, and the worker
	// starts with default dispositions even if our parent ignored some. Handlers do both,
	// because exec resets a handler but keeps SIG_IGN. Only the signals that need a handler
	// get one: each costs a tenth of a millisecond.
	survived := append(ignoredSignals(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), survived...) // never read
	signal.Notify(m.childSignals, syscall.SIGCHLD)

	// 3. The worker inherits this thread's signal mask, which is empty.
	m.exitOnError("signals", "", clearSignalMask())

	// 4. The monitor adopts orphans of the tree, if the system supports that.
	m.exitOnError("subreaper", "", adoptOrphans())
}

// prepareThread sets up the directory, processors and sandbox of this thread, which the worker
// inherits.
func (m *monitor) prepareThread(command *monitorproto.WorkerCommand) proctree.CgroupSwitch {
	// 6. The directory: changed here and not in the fork, so that a failure is not mistaken for one
	// of exec.
	if len(command.Dir) > 0 {
		m.exitOnError("chdir", string(command.Dir), os.Chdir(string(command.Dir)))
	}

	// 7. The processors and the sandbox, of this thread and so of the worker. Go must not start
	// another thread from one that differs from the others.
	if command.Sandbox != nil || command.Limits.CPUs > 0 || len(command.CPUs) > 0 {
		runtime.LockOSThread()
	}
	m.exitOnError("limits", "", proctree.SetCPUAffinity(command.CPUs, command.Limits.CPUs))
	group, err := proctree.OpenCgroupSwitch(string(command.WorkerCgroup), string(command.MonitorCgroup))
	m.exitOnError("limits", string(command.WorkerCgroup), err)
	m.enterSandbox(command)
	if command.Limits.Disk > 0 { // a write beyond the limit is an error in the language, and does not end the worker
		signal.Ignore(unix.SIGXFSZ)
	}
	return group
}

// startWorker is step 8: it starts the worker in its own process group, and in its control group
// from the first moment.
func (m *monitor) startWorker(command *monitorproto.WorkerCommand, group proctree.CgroupSwitch) {
	m.exitOnError("limits", string(command.WorkerCgroup), group.JoinWorkerGroup())
	pid, err := syscall.ForkExec(string(command.Path), monitorproto.ToStrings(command.Args), &syscall.ProcAttr{
		Env:   monitorproto.ToStrings(command.Env),
		Files: workerDescriptors(command),
		Sys:   workerAttributes(),
	})
	m.exitOnError("exec", string(command.Path), err)
	m.exitOnError("limits", string(command.MonitorCgroup), group.RejoinMonitorGroup())
	m.worker = pid
	m.tree = proctree.ProcessTree{Root: os.Getpid(), Session: os.Getpid(), Tag: command.Tag}
	unix.Close(fdWorkerIn)
	unix.Close(fdWorkerOut)
	limited := make(chan error, 1) // set by another thread: this one's filter would suspend the call, and the goroutine that answers it
	scope := proctree.RlimitScope{HasCgroup: len(command.WorkerCgroup) > 0, Sandboxed: m.sandbox != nil, MaxUserTasks: command.MaxUserTasks}
	go func() { limited <- proctree.SetRlimits(pid, command.Limits, scope) }()
	if err := <-limited; err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the worker has already ended
		unix.Kill(-m.worker, unix.SIGKILL)
		m.exitOnError("limits", "", err)
	}
}

// releaseTerminal is step 9: it gives the terminal to the worker. If the worker was faster and has
// touched it, SIGTTIN or SIGTTOU has stopped it, and handleWorkerStop continues it.
func (m *monitor) releaseTerminal() {
	// Setting the group from the background needs SIGTTOU ignored. No process that could inherit
	// that is started after this.
	signal.Ignore(syscall.SIGTTOU)
	if err := m.setForeground(); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		unix.Kill(-m.worker, unix.SIGKILL)
		m.exitOnError("foreground", "", err)
	} // ESRCH and EPERM: its group is gone, so the worker has already ended
}

// workerDescriptors returns the descriptors that the worker gets as its 0, 1, 2 and so on.
func workerDescriptors(c *monitorproto.WorkerCommand) []uintptr {
	if c.ChannelOnStdio {
		return []uintptr{fdWorkerIn, fdWorkerOut, 2}
	}
	return []uintptr{0, 1, 2, fdWorkerIn, fdWorkerOut}
}

// exitOnError ends the monitor with a report if a step failed.
func (m *monitor) exitOnError(step, path string, err error) {
	if err == nil {
		return
	}
	m.sendEvent(monitorproto.NewFailedEvent(step, path, err))
	exit(1)
}

// exit skips the work that Go does at the end of a program. Only tools (coverage, the race
// detector) need that work, and they are slow or write to the worker's terminal.
func exit(code int) { syscall.Exit(code) }

// sendEvent ignores errors: if the supervisor is gone, end of file on the other pipe ends
// the monitor.
func (m *monitor) sendEvent(event monitorproto.MonitorEvent) {
	m.eventMu.Lock()
	defer m.eventMu.Unlock()
	_ = m.eventEncoder.Encode(event)
}

// receiveCommands forwards commands until the pipe ends. Those for the sandbox are handled here, so
// that a grant need not wait for the worker's thread. An earlier signal is sent first, because an
// interrupt must reach a suspended call before its refusal does. The goroutine ends with the
// process.
func (m *monitor) receiveCommands(down *json.Decoder) <-chan monitorproto.MonitorCommand {
	c := make(chan monitorproto.MonitorCommand)
	go func() {
		defer close(c)
		for {
			var command monitorproto.MonitorCommand
			if down.Decode(&command) != nil {
				return
			}
			if m.handleSandboxCommand(command) {
				continue
			}
			c <- command
			if m.sandbox != nil {
				c <- monitorproto.MonitorCommand{} // a no-op, received once the command was handled
			}
		}
	}()
	return c
}

// serve ends the process when the worker has ended or must end.
func (m *monitor) serve() {
	for {
		select {
		case <-m.childSignals:
			m.reapChildren()
			if m.worker == 0 {
				m.endTree()
			}
		case command, ok := <-m.commands:
			if !ok {
				m.endTree()
			}
			m.handleCommand(command)
		case <-m.resumeTimer.C:
			m.resumeWorker()
		}
	}
}

func (m *monitor) handleCommand(command monitorproto.MonitorCommand) {
	switch command.Kind {
	case monitorproto.CommandSignal:
		m.deliverSignal(syscall.Signal(command.Signal), command.To)
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventSignalSent})
	case monitorproto.CommandSetForeground:
		event := monitorproto.MonitorEvent{Kind: monitorproto.EventForegroundSet}
		if no, ok := errors.AsType[syscall.Errno](m.setForeground()); ok {
			event.Errno = int(no)
		}
		m.sendEvent(event)
	case monitorproto.CommandKill:
		m.endTree()
	}
}

// deliverSignal ignores errors: it fails only if the target is gone. It also resumes the terminal's
// output, which code may have suspended (tcflow): a program that a signal ends may still print.
func (m *monitor) deliverSignal(sig syscall.Signal, to monitorproto.Target) {
	_ = resumeOutput(0)
	switch to {
	case monitorproto.Worker:
		unix.Kill(m.worker, sig)
	case monitorproto.Group:
		unix.Kill(-m.worker, sig)
	case monitorproto.Foreground:
		group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		if err == nil && group > 0 && group != m.worker && group != unix.Getpgrp() {
			unix.Kill(-group, sig)
		}
	}
}

// setForeground makes the worker's group the foreground group of the terminal.
func (m *monitor) setForeground() error {
	for {
		if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, m.worker); err != unix.EINTR {
			return err
		}
	}
}

// reapChildren collects everything that has ended or stopped by now.
func (m *monitor) reapChildren() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, &usage)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == 0: // no children, or none has changed
			return
		case pid != m.worker: // an orphan that the monitor has adopted
		case status.Stopped():
			m.handleWorkerStop(status.StopSignal())
		default:
			e := monitorproto.NewExit(status, &usage)
			if e.Signal == "SIGKILL" && !m.isEnding && m.oomCounter.HasIncreased() {
				e.OOM, e.MemoryLimit = true, m.oomCounter.Limit
			}
			m.worker = 0
			m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventExited, Exit: &e})
		}
	}
}

// handleWorkerStop continues a stopped worker, because there is no shell in which a user could do
// so. A worker that stops repeatedly is continued after 1, 2, 4, … ms, up to 1 s, so that it
// cannot keep the monitor busy.
func (m *monitor) handleWorkerStop(sig syscall.Signal) {
	if m.isEnding {
		return
	}
	group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && group != m.worker {
		_ = m.setForeground()
	}
	if !wantsTerminal || group != m.worker { // otherwise it was merely faster than step 9
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventStopped, Signal: unix.SignalName(sig)})
	}
	if time.Since(m.lastStop) > 2*time.Second {
		m.stopCount = 0
	}
	if m.stopCount == 0 {
		m.resumeWorker()
	} else {
		m.resumeTimer.Reset(time.Millisecond << min(m.stopCount-1, 10))
	}
	m.stopCount++
	m.lastStop = time.Now()
}

// resumeWorker continues the whole group, since terminals and shells stop groups.
func (m *monitor) resumeWorker() {
	if m.worker != 0 {
		unix.Kill(-m.worker, unix.SIGCONT)
		unix.Kill(m.worker, unix.SIGCONT) // in case it has left its group
	}
}

// endTree kills everything, reports, and ends the process.
func (m *monitor) endTree() {
	m.isEnding = true
	remains := proctree.KillRemaining(KillTimeout, m.tree.VisitMembers, func(limit time.Duration) {
		select {
		case <-m.childSignals:
		case <-time.After(limit):
		}
		m.reapChildren()
	})
	m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventTreeEmpty, Survivors: remains})
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
