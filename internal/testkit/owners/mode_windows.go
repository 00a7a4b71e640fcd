package console

import (
	"os"
	"testing"
)

// wantFileMode only checks that the file exists: Windows has no modes, and files in the user's
// profile inherit its permissions.
func wantFileMode(t *testing.T, path string, _ os.FileMode) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
