// Package owners helps to test access to files: it makes files of another user, and files with
// given permissions.
package owners

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// otherUID is a user ID that is unused on all systems that run these tests.
const otherUID = 42_420

// GiveAway makes another user the owner of a file or directory. It skips the test if this process has no
// right to do so. Root has that right, except in most containers.
func GiveAway(t testing.TB, path string) {
	t.Helper()
	switch err := os.Chown(path, otherUID, otherUID); {
	case errors.Is(err, fs.ErrPermission):
		t.Skip("the owner of a file cannot be changed; run as root with that capability")
	case err != nil:
		t.Fatal(err)
	}
}
