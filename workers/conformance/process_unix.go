//go:build unix

package conformance

import (
	"os"
	"os/exec"
	"syscall"
)

// ownSession makes the worker lead a session and the terminal's foreground group.
func ownSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return nil
}

// signalInterrupt sends SIGINT to the worker, or to its whole process group.
func signalInterrupt(cmd *exec.Cmd, group bool) error {
	pid := cmd.Process.Pid
	if group {
		pid = -pid
	}
	return syscall.Kill(pid, syscall.SIGINT)
}

// killSession kills the worker's process group; the terminal hangs up on the rest.
func killSession(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// inode identifies a pipe, whatever its number; 0 when the system does not tell.
func inode(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// pollable is f again, in a form that Close unblocks a reader of; f is closed.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(f.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
