//go:build unix

package owners

import (
	"os"
	"testing"
)

// WantFileMode fails the test unless a file or directory has these permissions.
func WantFileMode(t testing.TB, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}
