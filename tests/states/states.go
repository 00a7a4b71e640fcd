// Package states keeps the tests of a package out of the state directory of who runs them: a daemon
// makes its key there, and clients read it.
package states

import (
	"fmt"
	"os"
)

// RunIsolated runs tests with a state directory of their own.
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
