//go:build unix

package cmdkit

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// ExecProgram replaces this program by another, in the same process with the same streams. It
// returns only if it fails.
func ExecProgram(_ Streams, path string, args []string) (int, error) {
	// Go has installed handlers for the signals, but ignored ones must stay ignored. Go tracks that
	// only for SIGINT and SIGHUP; see NotifyUnlessIgnored.
	if signal.Ignored(os.Interrupt) {
		signal.Ignore(syscall.SIGQUIT)
	}
	return StatusFailed, syscall.Exec(path, slices.Insert(args, 0, path), os.Environ())
}
