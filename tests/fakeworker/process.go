package fakeworker

import (
	"os"
	"os/exec"

	"github.com/turnstone-repl/turnstone/ipc"
)

// child runs a program on the terminal and waits for it. How it ends is its own
// affair: what a test looks at is what it wrote.
func (w *worker) child(name string, args ...string) *ipc.RuntimeError {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fail(0, err)
	}
	cmd.Wait()
	return nil
}
