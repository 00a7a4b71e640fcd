//go:build unix

package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadTokenPrivacy(t *testing.T) {
	t.Run("refuses a file that others can read", func(t *testing.T) {
		for _, test := range []struct {
			name      string
			dir, file os.FileMode
			says      string
		}{
			{"directory", 0o755, 0o600, "chmod 700"},
			{"file", 0o700, 0o640, "chmod 600"},
		} {
			t.Run(test.name, func(t *testing.T) {
				path := writeTokenFile(t, "0123456789abcdef")
				if err := os.Chmod(path, test.file); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Dir(path), test.dir); err != nil {
					t.Fatal(err)
				}
				if _, err := loadToken(path); err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "--token-file") {
					t.Errorf("got %v, want an error with %q and --token-file", err, test.says)
				}
			})
		}
	})

	t.Run("does not follow a link", func(t *testing.T) {
		link := filepath.Join(filepath.Dir(writeTokenFile(t, "")), "link")
		if err := os.Symlink("/etc/hostname", link); err != nil {
			t.Fatal(err)
		}
		if _, err := loadToken(link); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}
