//go:build unix

package kernelworker

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// stopSignal is the signal that an interrupt sends.
const stopSignal = syscall.SIGINT

// interruptGroup sends SIGINT to the worker's process group, the kernel and its children.
func interruptGroup() error { return syscall.Kill(0, stopSignal) }

// exitStatus returns the exit status of a kernel that has ended; killed names the signal that ended it.
func exitStatus(state *os.ProcessState) (code int, killed string) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), fmt.Sprintf("%v", status.Signal())
	}
	return state.ExitCode(), ""
}

// killProcess kills the kernel's process.
func killProcess(cmd *exec.Cmd) { cmd.Process.Kill() }
