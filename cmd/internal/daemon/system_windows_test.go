package daemon_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/windows"
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

// isAlive reports whether there is a process.
func isAlive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	got, err := windows.WaitForSingleObject(h, 0)
	return err != nil || got != windows.WAIT_OBJECT_0
}

// openFiles has no count here: the handles of a process are also those of its threads,
// which come and stay. The tests of supervisor/internal/launch count them.
func openFiles() int { return 0 }
