// Package states keeps tests out of the state directory of the user who runs them: a daemon
// creates its key there, and clients read it.
package states

import (
	"fmt"
	"os"
)

// RunIsolated runs tests with a private state directory.
func RunIsolated(run func() int) (status int) {
	dir, err := os.MkdirTemp("", "state-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
