// Package owners is for tests of files that belong to another user.
package owners

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// otherUID is a user whom no system that runs these tests has.
const otherUID = 42_420

// GiveAway makes a file or directory another user's. Where this process has no right to do that, which
// root has outside of most containers, it skips the test.
func GiveAway(t testing.TB, path string) {
	t.Helper()
	switch err := os.Chown(path, otherUID, otherUID); {
	case errors.Is(err, fs.ErrPermission):
		t.Skip("only root can give files away, where it has that right")
	case err != nil:
		t.Fatal(err)
	}
}
