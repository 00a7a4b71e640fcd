//go:build linux || darwin

package launch

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// unmonitoredProcess is the backend of a worker that was started without a monitor, as the
// leader of its session. It serves programs that did not call MonitorMain, with weaker
// guarantees: see WorkerProcess.HasMonitor.
type unmonitoredProcess struct {
	noSandbox
	command  *exec.Cmd
	pty      *pty.Master
	tree     proctree.ProcessTree
	killOnce sync.Once
	killed   chan struct{}
}

func (l *workerLaunch) startUnmonitored() (backend, int, error) {
	c := l.command
	if c.Dir != "" {
		if st, err := os.Stat(c.Dir); err != nil {
			return nil, 0, &monitorproto.StartError{Step: "chdir", Path: c.Dir, Err: unwrapPathError(err)}
		} else if !st.IsDir() {
			return nil, 0, &monitorproto.StartError{Step: "chdir", Path: c.Dir, Err: syscall.ENOTDIR}
		}
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: l.env, Dir: c.Dir,
		Stdin: l.slave, Stdout: l.slave, Stderr: l.slave,
		ExtraFiles:  []*os.File{l.workerIn, l.workerOut},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	if c.ChannelOnStdio {
		cmd.Stdin, cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr.Ctty = l.workerIn, l.workerOut, nil, 2
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, &monitorproto.StartError{Step: "exec", Path: c.Path, Err: unwrapPathError(err)}
	}
	pid := cmd.Process.Pid
	l.pty.WorkerGroup = pid
	return &unmonitoredProcess{
		command: cmd, pty: l.pty,
		tree:   proctree.ProcessTree{Root: pid, Session: pid, Tag: l.tag},
		killed: make(chan struct{}),
	}, pid, nil
}

func (p *unmonitoredProcess) sendSignal(sig monitorproto.Signal, to monitorproto.Target) error {
	s := systemSignal(sig)
	var err error
	switch to {
	case monitorproto.Worker:
		err = p.command.Process.Signal(s)
	case monitorproto.Group:
		err = unix.Kill(-p.tree.Root, s)
	case monitorproto.Foreground:
		var group int
		group, err = p.pty.ForegroundGroup()
		if err == nil && group > 0 && group != p.tree.Root {
			err = unix.Kill(-group, s)
		}
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
		return monitorproto.ErrEnded
	}
	return err
}

// signalsSent is nil: sendSignal returns only once the signal was sent.
func (p *unmonitoredProcess) signalsSent() <-chan struct{} { return nil }

func (p *unmonitoredProcess) killTree() { p.killOnce.Do(func() { close(p.killed) }) }

func (p *unmonitoredProcess) run(ended func(monitorproto.Exit), _ func(string)) (remains []int) {
	done := make(chan struct{})
	go func() { // ends with the worker; run waits for it unless even SIGKILL does not end it
		defer close(done)
		p.command.Wait()
	}()
	each := func(visit func(pid, group int)) {
		select {
		case <-done:
		default:
			visit(p.tree.Root, p.tree.Root)
		}
		p.tree.VisitTable(visit)
	}
	select {
	case <-done:
	case <-p.killed:
	}
	var reported bool
	report := func() {
		if !reported {
			reported = true
			st := p.command.ProcessState
			ended(monitorproto.NewExit(st.Sys().(syscall.WaitStatus), st.SysUsage().(*syscall.Rusage)))
		}
	}
	remains = proctree.KillRemaining(closeTimeout, each, func(limit time.Duration) {
		select {
		case <-done:
			report()
			time.Sleep(limit)
		case <-time.After(limit):
		}
	})
	select {
	case <-done:
		report()
	default:
		ended(monitorproto.Exit{Code: -1, Signal: "SIGKILL"})
	}
	return proctree.AwaitProcessEnd(remains, proctree.DyingTimeout)
}

func (p *unmonitoredProcess) memoryBytes() int64 { return p.tree.ResidentMemory() }
func (p *unmonitoredProcess) findReaders() []pty.TerminalReader {
	return p.pty.FindReaders(p.tree.Root, false)
}
func (p *unmonitoredProcess) refreshReader(r pty.TerminalReader) (pty.TerminalReader, pty.PollState) {
	return p.pty.RefreshReader(r)
}
func (p *unmonitoredProcess) canSeeReaders() bool { return pty.CanSeeReaders(p.tree.Root) }

// measureUsage returns nothing, and the other two methods do nothing: without a monitor, limits are
// not supported.
func (p *unmonitoredProcess) measureUsage(int64) proctree.Usage                { return proctree.Usage{} }
func (p *unmonitoredProcess) applyLimits(proctree.Usage, proctree.LimitUpdate) {}
func (p *unmonitoredProcess) signalMembers([]int, monitorproto.Signal)         {}
