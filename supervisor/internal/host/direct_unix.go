//go:build linux || darwin

package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// direct is the backend of a worker that this process started itself, as the leader of
// its session. It serves programs that did not call StageMain, and promises less: see
// Process.Staged.
type direct struct {
	unconfined
	command *exec.Cmd
	pty     *ptyMaster
	tree    tree
	killing sync.Once
	killed  chan struct{}
}

func (l *launch) direct() (backend, int, error) {
	c := l.command
	if c.Dir != "" {
		if st, err := os.Stat(c.Dir); err != nil {
			return nil, 0, &StartError{Step: "chdir", Path: c.Dir, Err: errnoOf(err)}
		} else if !st.IsDir() {
			return nil, 0, &StartError{Step: "chdir", Path: c.Dir, Err: syscall.ENOTDIR}
		}
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: l.env, Dir: c.Dir,
		Stdin: l.slave, Stdout: l.slave, Stderr: l.slave,
		ExtraFiles:  []*os.File{l.workerIn, l.workerOut},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	if c.Piped {
		cmd.Stdin, cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr.Ctty = l.workerIn, l.workerOut, nil, 2
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, &StartError{Step: "exec", Path: c.Path, Err: errnoOf(err)}
	}
	pid := cmd.Process.Pid
	l.pty.group = pid
	return &direct{
		command: cmd, pty: l.pty,
		tree:   tree{root: pid, session: pid, tag: l.tag},
		killed: make(chan struct{}),
	}, pid, nil
}

// errnoOf removes the path from err, because a StartError has it already.
func errnoOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func (d *direct) signal(sig Signal, to Target) error {
	s := systemSignal(sig)
	var err error
	switch to {
	case Worker:
		err = d.command.Process.Signal(s)
	case Group:
		err = unix.Kill(-d.tree.root, s)
	case Foreground:
		group := 0
		err = d.pty.control(func(fd int) (err error) {
			group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
			return err
		})
		if err == nil && group > 0 && group != d.tree.root {
			err = unix.Kill(-group, s)
		}
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	return err
}

// signalsSent is nil: signal returns only when the signal was sent.
func (d *direct) signalsSent() <-chan struct{} { return nil }

func (d *direct) kill() { d.killing.Do(func() { close(d.killed) }) }

func (d *direct) run(ended func(Exit), _ func(string)) (remains []int) {
	done := make(chan struct{})
	go func() { // ends with the worker; run waits for it unless SIGKILL does not end it
		defer close(done)
		d.command.Wait()
	}()
	each := func(visit func(pid, group int)) {
		select {
		case <-done:
		default:
			visit(d.tree.root, d.tree.root)
		}
		d.tree.scan(visit)
	}
	select {
	case <-done:
	case <-d.killed:
	}
	var reported bool
	report := func() {
		if !reported {
			reported = true
			st := d.command.ProcessState
			ended(exitOf(st.Sys().(syscall.WaitStatus), st.SysUsage().(*syscall.Rusage)))
		}
	}
	remains = sweep(closeLimit, each, func(wait time.Duration) {
		select {
		case <-done:
			report()
			time.Sleep(wait)
		case <-time.After(wait):
		}
	})
	select {
	case <-done:
		report()
	default:
		ended(Exit{Code: -1, Signal: "SIGKILL"})
	}
	return awaitGone(remains, dyingLimit)
}

func (d *direct) memoryBytes() int64 { return d.tree.memory() }
func (d *direct) readers() []Reader  { return d.pty.readers(d.tree.root, false) }
func (d *direct) seesReaders() bool  { return seesReaders(d.tree.root) }

// Without a stage nothing keeps a tree together that could be limited.
func (d *direct) usage(int64) Usage      { return Usage{} }
func (d *direct) allow(Usage, Allowance) {}
func (d *direct) endMembers([]int)       {}
