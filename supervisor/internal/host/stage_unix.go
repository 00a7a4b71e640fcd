//go:build linux || darwin

package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stageName is argv[0] of a stage. With stageEnv it is all that the stage
// gets from its command line and environment: the worker's come over a pipe,
// so that what users set for their Go programs does not reach the stage.
const stageName = "turnstone-stage"

// stageEnv keeps a stage small and quiet: no collection every two minutes, one only
// if it should ever have handled tens of thousands of orders. worker is the worker's
// environment: a program that is built to measure coverage measures its stage, too.
func stageEnv(worker []string) []string {
	return append([]string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=24MiB"}, coverage(worker)...)
}

// The stage's descriptors beside 0, 1 and 2, which are the terminal.
const (
	fdDown      = 3 // orders from the supervisor
	fdUp        = 4 // reports to it
	fdWorkerIn  = 5 // becomes the worker's 3
	fdWorkerOut = 6 // becomes the worker's 4
)

// sweepLimit is how long the stage tries to end a tree.
const sweepLimit = time.Second

func isStage() bool { return len(os.Args) == 1 && os.Args[0] == stageName }

// A stage is the parent of one worker: it starts it, forwards signals to it,
// notices how it ends, and leaves nothing of it behind. Everything happens in
// one goroutine, which alone reaps, so a pid that it signals is never stale.
type stage struct {
	up       *json.Encoder
	orders   <-chan order   // closes when the supervisor is gone
	children chan os.Signal // SIGCHLD; one pending is enough
	resume   *time.Timer    // fires when a stopped worker may go on

	tree    tree
	worker  int // its pid and its process group; 0 once reaped
	ending  bool
	memory  oomCounter
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

	// 1. Nothing but 0, 1 and 2 survives into the worker by accident.
	s.must("descriptors", "", closeOnExec())

	// 2. Signals: the stage survives what is meant for the worker, and the
	// worker starts with default dispositions even if our parent ignored some.
	// Both by handlers, because exec resets a handler and keeps SIG_IGN. Only
	// those that need one: each costs a tenth of a millisecond.
	survived := append(ignoredSignals(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), survived...) // nobody listens
	signal.Notify(s.children, syscall.SIGCHLD)

	// A child dies with the thread that started it (step 7), so this goroutine
	// keeps its thread as long as the process lives.
	runtime.LockOSThread()

	// 3. The worker inherits this thread's mask: none.
	s.must("signals", "", clearSignalMask())

	// 4. Orphans of the tree become ours, where the system can do that.
	s.must("subreaper", "", adoptOrphans())

	// 5. The plan.
	down := json.NewDecoder(os.NewFile(fdDown, "down"))
	var first order
	if err := down.Decode(&first); err != nil || first.Do != doStart || first.Plan == nil {
		exit(1) // no supervisor that would read a report
	}
	plan := first.Plan

	// 6. The directory: here and not in the fork, to tell it from exec.
	if len(plan.Dir) > 0 {
		s.must("chdir", string(plan.Dir), os.Chdir(string(plan.Dir)))
	}

	// 7. The worker, in a process group of its own.
	pid, err := syscall.ForkExec(string(plan.Path), stringsOf(plan.Args), &syscall.ProcAttr{
		Env:   stringsOf(plan.Env),
		Files: []uintptr{0, 1, 2, fdWorkerIn, fdWorkerOut},
		Sys:   workerAttributes(),
	})
	s.must("exec", string(plan.Path), err)
	s.worker = pid
	s.tree = tree{root: os.Getpid(), session: os.Getpid(), tag: plan.Tag}
	unix.Close(fdWorkerIn)
	unix.Close(fdWorkerOut)

	// 8. The terminal belongs to the worker. A worker that was faster and has
	// touched it was stopped by SIGTTIN or SIGTTOU: halted continues it.
	// Setting the group from the background needs SIGTTOU ignored, which
	// nobody can inherit any more.
	signal.Ignore(syscall.SIGTTOU)
	if err := s.foreground(); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		unix.Kill(-s.worker, unix.SIGKILL)
		s.must("foreground", "", err)
	} // ESRCH and EPERM: its group is gone, it has ended already

	// 9. Said, and served.
	s.tell(report{What: whatStarted, PID: pid})
	os.Chdir("/") // do not keep the user's directory busy after the worker left it
	s.memory = newOOMCounter()
	forgetImage()
	s.orders = receive(down)
	s.serve()
}

// must ends the stage with a report if a step failed.
func (s *stage) must(step, path string, err error) {
	if err == nil {
		return
	}
	s.tell(failed(step, path, err))
	exit(1)
}

// exit ends the process without what a program does at its end: here that
// would only be tools (coverage, the race detector) that write to the worker's
// terminal or take their time.
func exit(code int) { syscall.Exit(code) }

// tell ignores errors: without a supervisor, end of file on the other pipe
// ends the stage.
func (s *stage) tell(r report) { _ = s.up.Encode(r) }

// receive forwards orders until the pipe ends. The goroutine ends with the
// process.
func receive(down *json.Decoder) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if down.Decode(&o) != nil {
				return
			}
			c <- o
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
			s.proceed()
		}
	}
}

func (s *stage) obey(o order) {
	switch o.Do {
	case doSignal:
		s.send(syscall.Signal(o.Signal), o.To)
		s.tell(report{What: whatSent})
	case doForeground:
		r := report{What: whatForeground}
		if no, ok := errors.AsType[syscall.Errno](s.foreground()); ok {
			r.Errno = int(no)
		}
		s.tell(r)
	case doKill:
		s.end()
	}
}

// send fails only when the target is gone, which is no error here.
func (s *stage) send(sig syscall.Signal, to Target) {
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
		case pid != s.worker: // an orphan that came to us
		case status.Stopped():
			s.halted(status.StopSignal())
		default:
			e := exitOf(status, &usage)
			e.OOM = e.Signal == "SIGKILL" && !s.ending && s.memory.moved()
			s.worker = 0
			s.tell(report{What: whatExited, Exit: &e})
		}
	}
}

// halted continues a stopped worker: there is no shell here that a person
// would use for it. One that stops again and again is continued after 1, 2,
// 4, … ms, up to 1 s, so that it cannot keep the stage busy.
func (s *stage) halted(sig syscall.Signal) {
	if s.ending {
		return
	}
	group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && group != s.worker {
		_ = s.foreground()
	}
	if !wantsTerminal || group != s.worker { // else it was faster than step 8
		s.tell(report{What: whatStopped, Signal: unix.SignalName(sig)})
	}
	if time.Since(s.stopped) > 2*time.Second {
		s.stops = 0
	}
	if s.stops == 0 {
		s.proceed()
	} else {
		s.resume.Reset(time.Millisecond << min(s.stops-1, 10))
	}
	s.stops++
	s.stopped = time.Now()
}

// proceed continues the whole group, since terminals and shells stop groups.
func (s *stage) proceed() {
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
	s.tell(report{What: whatEmpty, Remains: remains})
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
