//go:build unix

package daemon_test

import (
	"os"
	"path/filepath"
	"testing"
)

// newSocketName is a socket for one daemon. A test's own directory has too long a name.
func newSocketName(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
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
