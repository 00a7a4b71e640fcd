package fakeworker

import (
	"os"
	"os/exec"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// childInterruptTimeout bounds the wait for the frame of an interrupt whose signal has already
// ended a child.
const childInterruptTimeout = time.Minute

// runChild runs a program on the terminal and waits for it. It ignores the exit status, because
// tests check only the output. If SIGINT ended the program, the turn waits for the interrupt, whose
// frame is on its way.
func (w *fakeWorker) runChild(t *workerTurn, name string, args ...string) *ipc.RuntimeError {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return turnError(0, err)
	}
	cmd.Wait()
	if diedOfInterrupt(cmd.ProcessState) {
		select {
		case <-t.stop:
		case <-time.After(childInterruptTimeout):
		}
	}
	return nil
}
