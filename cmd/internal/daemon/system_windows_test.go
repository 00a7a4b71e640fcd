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

// floodBytes is what a watcher that does not read is flooded with: less than
// elsewhere, because under Wine a pipe takes 4 MB a second.
const floodBytes = 16 << 20

// openFiles has no count here: the handles of a process are also those of its threads,
// which come and stay. The tests of supervisor/internal/launch count them.
func openFiles() int { return 0 }
