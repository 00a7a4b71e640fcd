//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// execProgram has another program take the place of this one, with its process and its streams. It
// returns only if it fails.
func execProgram(_ streams, path string, args []string) (int, error) {
	// Go has taken over the signals, but those that were ignored stay so. It sees that of SIGINT
	// and SIGHUP only; see heed.
	if signal.Ignored(os.Interrupt) {
		signal.Ignore(syscall.SIGQUIT)
	}
	return statusFailed, syscall.Exec(path, slices.Insert(args, 0, path), os.Environ())
}
