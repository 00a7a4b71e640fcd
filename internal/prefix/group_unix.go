//go:build unix

package prefix

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollTime is how often a group is looked at that was told to end.
const pollTime = 10 * time.Millisecond

// A group is the process group of a command.
type group struct {
	id int

	mu       sync.Mutex
	over     bool     // guarded by mu: the group is gone, and its id may be another's
	terminal *os.File // guarded by mu: the group has the foreground of it; nil is none
}

// startGroup starts a command in a group of its own. At a terminal whose foreground is ours it
// has the foreground, because others may not read the terminal. Else it has no terminal: a
// question there would reach the screen of somebody else.
func startGroup(cmd *exec.Cmd, terminal *os.File) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if terminal != nil && !hasForeground(terminal) {
		terminal = nil
	}
	if terminal != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: int(terminal.Fd())}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{id: cmd.Process.Pid, terminal: terminal}, nil
}

func hasForeground(terminal *os.File) bool {
	front, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && front == unix.Getpgrp()
}

// ready takes the terminal back.
func (g *group) ready() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.terminal == nil {
		return
	}
	signal.Ignore(unix.SIGTTOU) // for one in the background who does this
	_ = unix.IoctlSetPointerInt(int(g.terminal.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(unix.SIGTTOU)
	g.terminal = nil
}

// end tells the group to end, also one that is stopped.
func (g *group) end() {
	g.signal(unix.SIGTERM)
	g.signal(unix.SIGCONT)
}

func (g *group) kill() { g.signal(unix.SIGKILL) }

// finish ends the rest of the group, after its leader has ended.
func (g *group) finish() {
	g.end()
	for limit := time.Now().Add(killTime); g.signal(0) && time.Now().Before(limit); {
		time.Sleep(pollTime)
	}
	g.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// signal reports whether there is somebody left to get it.
func (g *group) signal(s unix.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.over && unix.Kill(-g.id, s) == nil
}
