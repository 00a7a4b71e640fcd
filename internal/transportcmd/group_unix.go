//go:build unix

package transportcmd

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is how often a group is looked at that was told to end.
const pollInterval = 10 * time.Millisecond

// A group is the process group of a command.
type group struct {
	id int

	mu       sync.Mutex
	gone     bool     // guarded by mu: the group is gone, and its id may be another's
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

// releaseTerminal takes the terminal back.
func (g *group) releaseTerminal() {
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

// terminate tells the group to end, also one that is stopped.
func (g *group) terminate() {
	g.sendSignal(unix.SIGTERM)
	g.sendSignal(unix.SIGCONT)
}

func (g *group) killAll() { g.sendSignal(unix.SIGKILL) }

// killRest ends the rest of the group, after its leader has ended.
func (g *group) killRest() {
	g.terminate()
	for limit := time.Now().Add(killTimeout); g.sendSignal(0) && time.Now().Before(limit); {
		time.Sleep(pollInterval)
	}
	g.killAll()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
}

// sendSignal reports whether there is somebody left to get it.
func (g *group) sendSignal(s unix.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.gone && unix.Kill(-g.id, s) == nil
}
