//go:build unix

package conformance

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
)

// startWorkerProcess starts cmd on its own terminal, as the leader of a session and of the
// terminal's foreground group, with two pipes.
func startWorkerProcess(cmd *exec.Cmd, nonce string) (_ *workerLink, err error) {
	var opened []*os.File
	defer func() {
		if err != nil {
			for _, f := range opened {
				f.Close()
			}
		}
	}()
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	opened = append(opened, master, slave)
	if master, err = makePollable(master); err != nil {
		return nil, err
	}
	opened = append(opened, master)
	workerIn, toWorker, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened = append(opened, workerIn, toWorker)
	fromWorker, workerOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened = append(opened, fromWorker, workerOut)
	cmd.Env = append(cmd.Env, "REPL_IPC=3,4,"+nonce)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.ExtraFiles = []*os.File{workerIn, workerOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for _, theirs := range []*os.File{slave, workerIn, workerOut} {
		theirs.Close()
	}
	return &workerLink{
		terminal:   master,
		fromWorker: fromWorker,
		toWorker:   toWorker,
		pipes:      []uint64{inodeNumber(toWorker), inodeNumber(fromWorker)},
		sendSignal: func(group bool) error { return signalInterrupt(cmd, group) },
		// kill kills the worker's process group; the terminal hangs up the rest.
		kill: func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) },
	}, nil
}

// signalInterrupt sends SIGINT to the worker, or to its whole process group.
func signalInterrupt(cmd *exec.Cmd, group bool) error {
	pid := cmd.Process.Pid
	if group {
		pid = -pid
	}
	return syscall.Kill(pid, syscall.SIGINT)
}

// inodeNumber identifies a pipe regardless of its descriptor; 0 means unknown.
func inodeNumber(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// makePollable returns a copy of f whose Close unblocks a reader, and closes f.
func makePollable(f *os.File) (*os.File, error) {
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
