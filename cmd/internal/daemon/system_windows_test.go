package daemon_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

var socketNames atomic.Int64

// newSocketName is a pipe for one daemon.
func newSocketName(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf(`\\.\pipe\turnstone-test-%d-%d`, os.Getpid(), socketNames.Add(1))
}

// floodBytes is the output for a subscriber that does not read. It is less than elsewhere, because
// under Wine a pipe transfers 4 MB a second.
const floodBytes = 16 << 20

// openFiles returns 0: the handles of a process include those of its threads, whose number varies.
// The tests of supervisor/internal/launch count handles.
func openFiles() int { return 0 }

// slowSystem is why tests that take long there, and do not depend on the system, are left out.
const slowSystem = "Wine needs a second for each process"

// hasSignals says that a signal can end a process.
const hasSignals = false
