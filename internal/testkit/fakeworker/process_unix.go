//go:build unix

package fakeworker

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/ipc"
)

// terminalKeepsMarkers says whether the terminal passes on bytes unchanged. A pseudo console of
// Windows redraws them.
const terminalKeepsMarkers = true

// openChannelEnd takes over an inherited end of the channel. Children do not inherit it, unless
// leak is set.
func openChannelEnd(number string, _ int, leak bool) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("%q is not a file descriptor", number)
	}
	if !leak {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fd), "channel"), nil
}

// privateTerminal duplicates the terminal, so that user code cannot close or redirect it.
func privateTerminal() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, fmt.Errorf("cannot duplicate standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// signalGroup interrupts the worker's process group, children included.
func signalGroup() { syscall.Kill(0, syscall.SIGINT) }

// dieBy makes the process die by a signal. It becomes a shell first, because the Go runtime turns
// most fatal signals into an exit.
func dieBy(name string) error {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	return syscall.Exec(shell, []string{"sh", "-c", "ulimit -c 0; kill -" + name + " $$"}, os.Environ())
}

// leaveProcess starts a detached program in a new session, with the terminal as its standard
// streams.
func leaveProcess() (pid int, err error) {
	cmd := exec.Command("sleep", "3600")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, cmd.Process.Release()
}

// diedOfInterrupt reports whether SIGINT ended a process.
func diedOfInterrupt(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}

// echoFromChild lets a child process write a line to the terminal.
func (w *fakeWorker) echoFromChild(t *workerTurn, text string) *ipc.RuntimeError {
	return w.runChild(t, "echo", text)
}

// listenConsole does nothing, because on Unix an interrupt is a signal.
func listenConsole(string, chan<- os.Signal) {}
