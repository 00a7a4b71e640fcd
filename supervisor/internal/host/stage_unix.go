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

// stageName is argv[0] of a stage. The stage gets no other argument, and only stageEnv
// as its environment. The worker's come over a pipe, so that settings of users for
// their Go programs do not reach the stage.
const stageName = "turnstone-stage"

// stageEnv keeps a stage small and quiet: instead of every two minutes, it collects
// garbage only after tens of thousands of orders. It has one processor, so it need not open the files that
// say how many its control group allows. worker is the worker's environment; it
// names the directory for coverage data, if the program was built to measure coverage.
func stageEnv(worker []string) []string {
	return append([]string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0", "GOGC=off", "GOMEMLIMIT=24MiB"}, coverage(worker)...)
}

// The stage's descriptors beside 0, 1 and 2, which are the terminal.
const (
	fdDown      = 3 // orders from the supervisor
	fdUp        = 4 // reports to it
	fdWorkerIn  = 5 // becomes the worker's 3
	fdWorkerOut = 6 // becomes the worker's 4
	fdOutlet    = 7 // where connections leave a sandbox, if it has an outlet
)

// sweepLimit is how long the stage tries to end a tree.
const sweepLimit = time.Second

func isStage() bool { return len(os.Args) == 1 && os.Args[0] == stageName }

// init runs a stage before most of the program is made ready, which would take more memory than
// all of a stage, in every session. See StageMain.
func init() {
	if isStage() {
		runStage()
	}
}

// A stage is the parent of one worker: it starts the worker, forwards signals to it,
// sees how it ends, and leaves nothing of it behind. One goroutine does all of this. It
// alone reaps, so a pid that it signals is never stale.
type stage struct {
	up       *json.Encoder
	telling  sync.Mutex     // held while a report is written
	orders   <-chan order   // closes when the supervisor is gone
	children chan os.Signal // SIGCHLD; one pending is enough
	resume   *time.Timer    // fires when a stopped worker may go on

	tree    tree
	worker  int // its pid and its process group; 0 once reaped
	ending  bool
	memory  oomCounter
	box     box       // the sandbox; nil without one
	notices [][]byte  // of it
	stops   int       // continuations in a row
	stopped time.Time // the last one
}

// runStage is the whole life of a stage. The order of its steps matters, and
// a step that fails ends the start with its name. The session and its terminal
// were made by the supervisor, in the fork.
func runStage() {
	s := &stage{
		up:       json.NewEncoder(os.NewFile(fdUp, "up")),
		children: make(chan os.Signal, 1),
		resume:   time.NewTimer(time.Hour),
	}
	s.resume.Stop()

	// 1. The worker inherits 0, 1 and 2, and only those other descriptors that it must have.
	s.must("descriptors", "", closeOnExec())

	// 2. Signals: the stage survives signals that are meant for the worker, and the
	// worker starts with default dispositions even if our parent ignored some.
	// Handlers do both, because exec resets a handler but keeps SIG_IGN. Only the
	// signals that need a handler get one: each costs a tenth of a millisecond.
	survived := append(ignoredSignals(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), survived...) // nobody listens
	signal.Notify(s.children, syscall.SIGCHLD)

	// 3. The worker inherits this thread's mask: none.
	s.must("signals", "", clearSignalMask())

	// 4. The stage adopts orphans of the tree, if the system can do that.
	s.must("subreaper", "", adoptOrphans())

	// 5. The plan.
	_ = unix.SetNonblock(fdDown, true) // or a thread would wait in each read
	down := json.NewDecoder(os.NewFile(fdDown, "down"))
	var first order
	if err := down.Decode(&first); err != nil || first.Do != doStart || first.Plan == nil {
		exit(1) // no supervisor that would read a report
	}
	plan := first.Plan

	// 6. The directory: changed here and not in the fork, so that a failure is
	// not taken for one of exec.
	if len(plan.Dir) > 0 {
		s.must("chdir", string(plan.Dir), os.Chdir(string(plan.Dir)))
	}

	// 7. The processors and the sandbox, of this thread and so of the worker. No other thread
	// may be made from one that differs from the others.
	if plan.Sandbox != nil || plan.Limits.CPUs > 0 || len(plan.CPUs) > 0 {
		runtime.LockOSThread()
	}
	s.must("limits", "", useCPUs(plan.CPUs, plan.Limits.CPUs))
	group, err := plan.entry()
	s.must("limits", string(plan.Group), err)
	s.confine(plan)
	if plan.Limits.Disk > 0 { // a write beyond the limit is an error of the language, not the end of it
		signal.Ignore(unix.SIGXFSZ)
	}

	// 8. The worker, in a process group of its own, and in its control group from the first moment.
	s.must("limits", string(plan.Group), group.enter())
	pid, err := syscall.ForkExec(string(plan.Path), stringsOf(plan.Args), &syscall.ProcAttr{
		Env:   stringsOf(plan.Env),
		Files: plan.files(),
		Sys:   workerAttributes(),
	})
	s.must("exec", string(plan.Path), err)
	s.must("limits", string(plan.Home), group.leave())
	s.worker = pid
	s.tree = tree{root: os.Getpid(), session: os.Getpid(), tag: plan.Tag}
	unix.Close(fdWorkerIn)
	unix.Close(fdWorkerOut)
	limited := make(chan error, 1) // by another thread: this one's filter would hold the call, and with it whoever answers that
	go func() { limited <- limit(pid, plan, s.box != nil) }()
	if err := <-limited; err != nil && !errors.Is(err, unix.ESRCH) { // else it has ended already
		unix.Kill(-s.worker, unix.SIGKILL)
		s.must("limits", "", err)
	}

	// 9. The terminal is given to the worker. If the worker was faster and has
	// touched it, SIGTTIN or SIGTTOU has stopped it, and workerStopped continues it.
	// Setting the group from the background needs SIGTTOU ignored. No process is
	// started after this that could inherit that.
	signal.Ignore(syscall.SIGTTOU)
	if err := s.foreground(); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		unix.Kill(-s.worker, unix.SIGKILL)
		s.must("foreground", "", err)
	} // ESRCH and EPERM: its group is gone, it has ended already

	// 10. Report the start, then serve.
	s.report(report{What: whatStarted, PID: s.seenFromOutside(pid), Notices: s.notices})
	os.Chdir("/") // do not keep the user's directory busy after the worker left it
	s.memory = newOOMCounter(plan)
	if s.box != nil {
		outliveSignals()
	}
	forgetImage()
	s.orders = s.receive(down)
	s.serve()
}

// files are the descriptors that the worker gets as its 0, 1, 2 and so on.
func (p *plan) files() []uintptr {
	if p.Piped {
		return []uintptr{fdWorkerIn, fdWorkerOut, 2}
	}
	return []uintptr{0, 1, 2, fdWorkerIn, fdWorkerOut}
}

// must ends the stage with a report if a step failed.
func (s *stage) must(step, path string, err error) {
	if err == nil {
		return
	}
	s.report(failed(step, path, err))
	exit(1)
}

// exit skips the usual work at the end of a program. Here that would only be tools
// (coverage, the race detector), which are slow or write to the worker's terminal.
func exit(code int) { syscall.Exit(code) }

// report ignores errors: if the supervisor is gone, end of file on the other pipe ends
// the stage.
func (s *stage) report(r report) {
	s.telling.Lock()
	defer s.telling.Unlock()
	_ = s.up.Encode(r)
}

// receive forwards orders until the pipe ends. Those for the sandbox are obeyed here: a grant need
// not wait until the thread of the worker runs. A signal is sent before they are, because an
// interrupt must reach a held call before its refusal does. The goroutine ends with the process.
func (s *stage) receive(down *json.Decoder) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if down.Decode(&o) != nil {
				return
			}
			if s.obeySandbox(o) {
				continue
			}
			c <- o
			if s.box != nil {
				c <- order{} // asks nothing, and is taken once o was obeyed
			}
		}
	}()
	return c
}

// serve ends the process when the worker has ended or must end.
func (s *stage) serve() {
	for {
		select {
		case <-s.children:
			s.reap()
			if s.worker == 0 {
				s.end()
			}
		case o, ok := <-s.orders:
			if !ok {
				s.end()
			}
			s.obey(o)
		case <-s.resume.C:
			s.resumeWorker()
		}
	}
}

func (s *stage) obey(o order) {
	switch o.Do {
	case doSignal:
		s.send(syscall.Signal(o.Signal), o.To)
		s.report(report{What: whatSent})
	case doForeground:
		r := report{What: whatForeground}
		if no, ok := errors.AsType[syscall.Errno](s.foreground()); ok {
			r.Errno = int(no)
		}
		s.report(r)
	case doKill:
		s.end()
	}
}

// send ignores errors: it fails only when the target is gone. Code may have stopped the terminal's
// output (tcflow), and what a signal ends has something to say.
func (s *stage) send(sig syscall.Signal, to Target) {
	_ = startOutput(0)
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

// foreground makes the worker's group the one that may use the terminal.
func (s *stage) foreground() error {
	return again(func() error { return unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, s.worker) })
}

// reap collects everything that has ended or stopped by now.
func (s *stage) reap() {
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
			s.workerStopped(status.StopSignal())
		default:
			e := exitOf(status, &usage)
			if e.Signal == "SIGKILL" && !s.ending && s.memory.increased() {
				e.OOM, e.MemoryLimit = true, s.memory.limit
			}
			s.worker = 0
			s.report(report{What: whatExited, Exit: &e})
		}
	}
}

// workerStopped continues a stopped worker, because there is no shell in which a person
// could do it. A worker that stops again and again is continued after 1, 2, 4, … ms, up
// to 1 s, so that it cannot keep the stage busy.
func (s *stage) workerStopped(sig syscall.Signal) {
	if s.ending {
		return
	}
	group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && group != s.worker {
		_ = s.foreground()
	}
	if !wantsTerminal || group != s.worker { // otherwise it was just faster than step 9
		s.report(report{What: whatStopped, Signal: unix.SignalName(sig)})
	}
	if time.Since(s.stopped) > 2*time.Second {
		s.stops = 0
	}
	if s.stops == 0 {
		s.resumeWorker()
	} else {
		s.resume.Reset(time.Millisecond << min(s.stops-1, 10))
	}
	s.stops++
	s.stopped = time.Now()
}

// resumeWorker continues the whole group, since terminals and shells stop groups.
func (s *stage) resumeWorker() {
	if s.worker != 0 {
		unix.Kill(-s.worker, unix.SIGCONT)
		unix.Kill(s.worker, unix.SIGCONT) // in case it has left its group
	}
}

// end kills everything, reports, and ends the process.
func (s *stage) end() {
	s.ending = true
	remains := sweep(sweepLimit, s.tree.members, func(wait time.Duration) {
		select {
		case <-s.children:
		case <-time.After(wait):
		}
		s.reap()
	})
	s.report(report{What: whatEmpty, Remains: remains})
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

func exitOf(status syscall.WaitStatus, u *syscall.Rusage) Exit {
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
