//go:build unix

package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// newSocketName is a socket for one daemon.
func newSocketName(t testing.TB) string {
	t.Helper()
	return filepath.Join(testexec.ShortDir(t), "s")
}

// floodBytes is the output for a subscriber that does not read.
const floodBytes = 100 << 20

// openFiles counts the descriptors of this process; 0 where that cannot be done.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if all, err := os.ReadDir(dir); err == nil {
			return len(all)
		}
	}
	return 0
}

// slowSystem is why tests that take long, and do not depend on the system, are left out; "" runs them.
const slowSystem = ""

// hasSignals says that a signal can end a process.
const hasSignals = true
