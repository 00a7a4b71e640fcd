//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// execProgram replaces this program by another, in the same process with the same streams. It
// returns only if it fails.
func execProgram(_ streams, path string, args []string) (int, error) {
	// Go has installed handlers for the signals, but ignored ones must stay ignored. Go tracks that
	// only for SIGINT and SIGHUP; see notifyUnlessIgnored.
	if signal.Ignored(os.Interrupt) {
		signal.Ignore(syscall.SIGQUIT)
	}
	return statusFailed, syscall.Exec(path, slices.Insert(args, 0, path), os.Environ())
}
