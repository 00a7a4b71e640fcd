package kernelworker

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// stopSignal is what an interrupt sends.
var stopSignal = os.Interrupt

// openChannel refuses: a kernel gets its worker's terminal as a descriptor, and interrupts as a
// signal, and Windows has neither.
func openChannel() (io.ReadWriteCloser, string, error) {
	return nil, "", errors.New("Jupyter kernels are languages on Linux and macOS only")
}

func interruptGroup() error { return errors.ErrUnsupported }

func exitStatus(state *os.ProcessState) (code int, killed string) { return state.ExitCode(), "" }

func killProcess(cmd *exec.Cmd) { cmd.Process.Kill() }
