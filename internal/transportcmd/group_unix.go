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

// pollInterval is the pause between two checks whether a group has ended.
const pollInterval = 10 * time.Millisecond

// A group is the process group of a command, with its terminal.
type group struct {
	id int

	mu       sync.Mutex
	gone     bool     // guarded by mu; the group has ended, and its id may be reused
	terminal *os.File // guarded by mu; the group is in the foreground of it; nil without one
}

// startGroup starts a command in its own group. If terminal is given and this process is in its
// foreground, the command gets the foreground, because only a foreground group may read the
// terminal. Otherwise the command has no terminal, so that it cannot ask on the terminal of another
// program.
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

// hasForeground reports whether this process is in the foreground of a terminal.
func hasForeground(terminal *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// releaseTerminal takes the foreground of the terminal back.
func (g *group) releaseTerminal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.terminal == nil {
		return
	}
	signal.Ignore(unix.SIGTTOU) // the kernel sends it to a background process that does this
	_ = unix.IoctlSetPointerInt(int(g.terminal.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(unix.SIGTTOU)
	g.terminal = nil
}

// terminate asks the group to end, including processes that are stopped.
func (g *group) terminate() {
	g.sendSignal(unix.SIGTERM)
	g.sendSignal(unix.SIGCONT)
}

// killAll kills all processes of the group.
func (g *group) killAll() { g.sendSignal(unix.SIGKILL) }

// killRest ends the remaining processes of the group, after its leader has ended.
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

// sendSignal sends a signal, and reports whether a process was left to receive it.
func (g *group) sendSignal(s unix.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.gone && unix.Kill(-g.id, s) == nil
}
