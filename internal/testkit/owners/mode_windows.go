package owners

import (
	"os"
	"testing"
)

// WantFileMode only checks that the file exists: Windows has no modes, and files in the user's
// profile inherit its permissions.
func WantFileMode(t testing.TB, path string, _ os.FileMode) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
