//go:build unix

package userconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/session"
)

func TestSandboxFileUnix(t *testing.T) {
	t.Run("creates a private file and rejects a public one", func(t *testing.T) {
		f := writeSandboxFile(t, "")
		if err := f.Add("/work", session.Grant{Write: "/a"}); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]os.FileMode{string(f): 0o600, filepath.Dir(string(f)): 0o700} {
			if i, err := os.Stat(path); err != nil || i.Mode().Perm() != want {
				t.Errorf("%s: got %v, %v", path, i, err)
			}
		}
		if err := os.Chmod(string(f), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), string(f)) {
			t.Errorf("writable by others: got %v", err)
		}
	})

	// Scripts set XDG_CONFIG_HOME=/dev/null to turn settings off.
	t.Run("treats a path below a device as missing", func(t *testing.T) {
		if s, err := userconfig.SandboxFile("/dev/null/turnstone/sandbox.toml").Read(); err != nil || s.Sandbox != "" {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

func TestRemotesFile_Mode(t *testing.T) {
	t.Parallel()
	path := writeRemotesFile(t, "[remotes.a]\nvia = \"ssh a\"\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := userconfig.ReadRemotes(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}
