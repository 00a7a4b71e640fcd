//go:build unix

package securefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	fileHint = "chmod 600"
	dirHint  = "chmod 700"
)

// makeInsecure makes a file or a directory that others may read.
func makeInsecure(t *testing.T, path string, dir bool) {
	t.Helper()
	mode, make := os.FileMode(0o640), func() error { return os.WriteFile(path, nil, 0o600) }
	if dir {
		mode, make = 0o750, func() error { return os.Mkdir(path, 0o700) }
	}
	if err := make(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // independent of the umask
		t.Fatal(err)
	}
}

func TestCheck_Symlink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	if err := Check(link); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want an error", err)
	}
}
