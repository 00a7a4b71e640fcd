package kernelworker

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// stopSignal is the signal that an interrupt sends.
var stopSignal = os.Interrupt

// openChannel returns an error: a kernel gets its worker's terminal as a descriptor and interrupts as
// signals, and Windows has neither.
func openChannel() (io.ReadWriteCloser, string, error) {
	return nil, "", errors.New("Jupyter kernels can be used as languages only on Linux and macOS")
}

func interruptGroup() error { return errors.ErrUnsupported }

func exitStatus(state *os.ProcessState) (code int, killed string) { return state.ExitCode(), "" }

func killProcess(cmd *exec.Cmd) { cmd.Process.Kill() }
