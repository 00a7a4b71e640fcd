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
	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

// stageLimit bounds the time that a stage may take to end a tree, a little more than the
// stage allows itself. Then the stage is killed, and the rest of closeLimit goes to the
// processes that are left.
const stageLimit = sweepLimit + sweepLimit/2

// staged is the backend of a worker that its stage started.
type staged struct {
	stage   child
	down    *Channel // orders to the stage, reports from it
	reports reports
	pty     *ptyMaster
	tree    tree

	sending
	ordering     sync.Mutex // held while an order is written
	cut          bool       // guarded by ordering; the stage has taken a part of an order
	log          stageLog
	group        *group // nil without one
	limits       Limits
	box          *Sandbox // likewise
	confined     bool
	sandbox      *confine.Plan // nil without one
	denied       func(Denial)  // may be nil
	notices      []string      // of the sandbox
	early        []report      // denials from before the report that the worker has started; for run
	foregrounded chan error    // answers to doForeground; holds one
	grants       grants
	bounding     sync.Mutex
	data         map[int]int64 // of each process, when it was bounded last; guarded by bounding
	othersAt     time.Time     // when the tasks of the user were counted; guarded by bounding
	tasks        uint64        // that the tree may have with them; guarded by bounding
	life
	ending   sync.Once
	watchdog *time.Timer // ends a stage that does not end; set by ending
}

// maxEarly bounds the denials of a worker that the stage has not yet reported as started. That
// report follows within milliseconds.
const maxEarly = 10_000

// A life has the facts that a worker's last reports tell. reports.mu guards it.
type life struct {
	ended         func(Exit) // nil until run
	notice        func(string)
	exited, empty bool
	remains       []int
}

// staged starts the stage, and through it the worker.
func (l *launch) staged() (backend, int, error) {
	s, err := l.startStage()
	if err != nil {
		return nil, 0, err
	}
	pid, err := s.startWorker(l)
	if err != nil {
		s.abandon()
		return nil, 0, err
	}
	l.pty.group = pid
	l.pty.toForeground = s.foreground
	return s, pid, nil
}

func (l *launch) startStage() (_ *staged, err error) {
	fail := func(err error) (*staged, error) { return nil, &StartError{Step: "stage", Err: err} }
	self, err := stageExecutable()
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
	files := []*os.File{l.slave, l.slave, l.slave, orders, reportsIn, l.workerIn, l.workerOut} // fdDown…
	if l.command.Sandbox.namespaces() {
		prepareSandbox(attr)
	}
	if l.command.Sandbox != nil && l.command.Sandbox.Outlet {
		ours, theirs, err := outlet.Pair()
		if err != nil {
			down.Close()
			return fail(err)
		}
		defer theirs.Close()
		l.outlet, files = ours, append(files, theirs) // fdOutlet
	}
	stage, err := startChild(self, []string{stageName}, &os.ProcAttr{Env: stageEnv(l.env), Files: files, Sys: attr})
	if err != nil {
		down.Close()
		if l.command.Sandbox.namespaces() {
			return nil, &StartError{Step: "sandbox: user namespace", Err: errnoOf(err)}
		}
		return fail(err)
	}
	pid := stage.pid()
	return &staged{
		stage: stage, down: down, reports: reports{raw: up}, pty: l.pty,
		tree:         tree{root: pid, session: pid, tag: l.tag},
		foregrounded: make(chan error, 1), confined: l.command.Sandbox.namespaces(), denied: l.command.Denied,
		limits: l.command.Limits, box: l.command.Sandbox, tasks: math.MaxUint64,
		log: newStageLog(l.command.Logger),
	}, nil
}

// startWorker sends the plan and waits for the answer, within Command.Timeout.
func (s *staged) startWorker(l *launch) (pid int, err error) {
	c := l.command
	if c.Sandbox != nil {
		if s.sandbox, err = c.Sandbox.Plan(); err != nil {
			return 0, err
		}
	}
	deadline := time.Now().Add(c.timeout())
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
	s.startGroup(givenUp, l)
	group, home := s.group.paths()
	o := order{Do: doStart, Plan: &plan{
		Path: []byte(c.Path),
		Args: bytesOf(append([]string{c.Path}, c.Args...)),
		Env:  bytesOf(l.env),
		Dir:  []byte(c.Dir),
		Tag:  l.tag,

		Piped:   c.Piped,
		Sandbox: s.sandbox,
		Limits:  c.Limits,
		CPUs:    c.CPUs,
		Group:   group,
		Home:    home,
		Tasks:   s.group.tasksFor(c.Limits, c.Sandbox),
	}}
	s.log.order(o)
	err = json.NewEncoder(s.down).Encode(o)
	var r report
	if err == nil || errors.Is(err, syscall.EPIPE) { // a stage that failed early has told why
		err = s.reports.await(func(next report) bool {
			if next.What == whatDenied { // the worker may be faster than the stage
				s.early = append(s.early, next)
				return len(s.early) < maxEarly
			}
			if next.What == whatLook { // the plan is new
				return true
			}
			r = next
			return false
		})
		s.log.report(r)
	}
	switch {
	case !goOn():
		err = givenUp.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not start the worker within %s; a slow machine needs a longer StartTimeout", c.timeout())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ended before it started the worker: memory or the number of processes is limited too much (ulimit -v, ulimit -u), or something runs before StageMain in main")
	case len(s.early) == maxEarly:
		err = fmt.Errorf("the sandbox refused %d calls before the stage had started the worker", maxEarly)
	case err == nil && r.What == whatStarted:
		s.notices = stringsOf(r.Notices)
		return r.PID, nil
	case err == nil:
		return 0, r.failure()
	}
	return 0, &StartError{Step: "stage", Err: err}
}

// startGroup makes the group of the worker, or says what its limit of memory leaves out.
func (s *staged) startGroup(ctx context.Context, l *launch) {
	var err error
	limits := l.command.Limits
	if s.group, err = newGroup(ctx, s.tree.root, l.tag, limits, l.command.Services); s.group == nil {
		l.uncounted = uncounted(l.command, err)
	} else if s.sandbox != nil && limits.Memory > 0 && limits.Disk == 0 { // what its own limits refuse is an error of the language
		s.sandbox.Shared, s.sandbox.Objects = limits.Memory, limits.Memory
	}
}

// abandon ends a stage that did not start its worker, or not in time.
func (s *staged) abandon() {
	s.down.out.Close() // to the stage this is an order to end everything
	s.expectEnd()
	s.finish(false)
}

// expectEnd starts the watchdog that kills a stage which does not end in time.
func (s *staged) expectEnd() {
	s.ending.Do(func() {
		s.watchdog = time.AfterFunc(stageLimit, func() { s.stage.kill() })
	})
}

// orderLimit bounds the time in which the stage takes a whole order.
const orderLimit = 2 * time.Second

// errCut says that no order can be sent: the stage would take it for the rest of another.
var errCut = errors.New("host: the stage has taken only a part of an order and can be told nothing more: reset the session")

// order sends an order. Small ones fit into the pipe at once or not at all. A grant may be larger than the
// pipe, which is small where the user has many: then it is written as the stage reads.
func (s *staged) order(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s.ordering.Lock()
	defer s.ordering.Unlock()
	if s.cut {
		return errCut
	}
	s.log.order(o)
	line = append(line, '\n')
	n, err := s.down.TryWrite(line)
	if err == nil && n < len(line) && (n > 0 || len(line) > atOnce) {
		var more int
		more, err = s.down.writeWithin(orderLimit, line[n:])
		n += more
	}
	s.cut = n > 0 && n < len(line)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		return ErrEnded
	case s.cut:
		return errCut
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && n < len(line):
		return errors.New("host: the stage does not take orders: it is stopped or stuck")
	}
	return err
}

func (s *staged) signal(sig Signal, to Target) error {
	return s.counted(func() error { return s.order(order{Do: doSignal, Signal: int(systemSignal(sig)), To: to}) })
}

func (s *staged) kill() {
	if s.order(order{Do: doKill}) != nil {
		s.stage.kill()
	}
	s.expectEnd()
}

// foreground asks the stage to give the terminal to the worker's group and waits for
// the answer, because the next turn must find it done.
func (s *staged) foreground() error {
	select {
	case <-s.foregrounded: // of a question that was given up
	default:
	}
	if err := s.order(order{Do: doForeground}); err != nil {
		return err
	}
	select {
	case err := <-s.foregrounded:
		return err
	case <-time.After(time.Second):
		return errors.New("the stage did not answer within 1s")
	}
}

func (s *staged) run(ended func(Exit), notice func(string)) (remains []int) {
	for _, n := range s.notices {
		notice(n)
	}
	s.begin(ended, notice)
	_ = s.reports.await(s.take)
	s.reports.mu.Lock()
	exited, empty, remains := s.exited, s.empty, s.remains
	s.ended = nil
	s.reports.mu.Unlock()
	if !empty {
		remains = s.finish(true)
	} else {
		s.finish(false)
	}
	if !exited {
		ended(Exit{Code: -1, Signal: "SIGKILL", Lost: true})
	}
	return awaitGone(remains, dyingLimit)
}

// begin lets reports be taken, and hands on those from before the worker was known to run.
func (s *staged) begin(ended func(Exit), notice func(string)) {
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	s.ended, s.notice = ended, notice
	for _, r := range s.early {
		s.take(r)
	}
	s.early = nil
}

// catchUp does not take reports before and after run.
func (s *staged) catchUp() {
	s.reports.mu.Lock()
	serving := s.ended != nil
	s.reports.mu.Unlock()
	if serving && s.confined {
		s.reports.now(func(r report) bool { return s.ended == nil || s.take(r) })
	}
}

// take handles a report. It returns false after the last one.
func (s *staged) take(r report) (more bool) {
	s.log.report(r)
	switch r.What {
	case whatStopped:
		s.notice("the worker was stopped (" + r.Signal + ") and continued")
	case whatSent:
		s.confirmed()
	case whatForeground:
		var err error
		if r.Errno != 0 {
			err = syscall.Errno(r.Errno)
		}
		select {
		case s.foregrounded <- err:
		default:
		}
	case whatDenied:
		if s.denied != nil && r.Denied != nil {
			s.denied(r.Denied.denial())
		}
	case whatLook:
		go s.look() // it may ask git
	case whatGranted:
		s.grants.answered(&r)
	case whatExited:
		s.expectEnd()
		s.exited = true
		s.ended(*r.Exit)
	case whatEmpty:
		if s.empty = true; !s.confined { // otherwise the kernel lets nothing outlive the stage
			s.remains = r.Remains
		}
	}
	return !s.empty
}

// finish reaps the stage and releases its resources. If the stage was lost, the kernel
// has killed the worker with it, and the rest of the tree is found by session and tag.
func (s *staged) finish(lost bool) (remains []int) {
	if lost {
		s.stage.kill()
	}
	s.expectEnd()
	s.stage.wait()
	s.watchdog.Stop()
	s.group.remove()
	s.down.Close()
	if lost {
		remains = sweep(closeLimit-stageLimit, s.tree.scan, time.Sleep)
	}
	return remains
}

func (s *staged) memoryBytes() int64 { return s.tree.memory() }
func (s *staged) readers() []Reader  { return s.pty.readers(s.tree.root, true) }
func (s *staged) seesReaders() bool  { return seesReaders(s.pty.group) }

func systemSignal(s Signal) syscall.Signal {
	return [...]syscall.Signal{
		Interrupt: syscall.SIGINT, Hangup: syscall.SIGHUP, Terminate: syscall.SIGTERM, Kill: syscall.SIGKILL,
	}[s]
}

// atOnce is the size up to which Linux writes into a pipe all or nothing, in bytes (PIPE_BUF in pipe(7)).
const atOnce = 4096

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
