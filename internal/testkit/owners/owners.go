// Package owners helps to test access to files: it makes files of another user, and files with
// given permissions.
package owners

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// otherUID is a user id that no system that runs these tests uses.
const otherUID = 42_420

// GiveAway makes another user the owner of a file or directory. It skips the test if this process may not
// do that; root may, but not in most containers.
func GiveAway(t testing.TB, path string) {
	t.Helper()
	switch err := os.Chown(path, otherUID, otherUID); {
	case errors.Is(err, fs.ErrPermission):
		t.Skip("the owner of a file cannot be changed; run as root with that capability")
	case err != nil:
		t.Fatal(err)
	}
}
