//go:build unix

package cmdflags

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestSessionWritableDirs_UserConfig(t *testing.T) {
	config, workspace := t.TempDir(), filepath.Join(t.TempDir(), "w")
	t.Setenv("XDG_CONFIG_HOME", config)
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(workspace, link); err != nil {
		t.Fatal(err)
	}
	env, data := filepath.Join(config, "env"), filepath.Join(config, "data")
	for _, g := range []session.Grant{{Write: env}, {Read: data}} {
		if err := userconfig.DefaultSandboxFile(os.Getenv).Add(real, g); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{workspace, link} {
		for level, want := range map[sandbox.Level]bool{sandbox.Workspace: true, sandbox.ReadOnly: true, sandbox.Full: false} {
			dirs, err := sessionWritableDirs(workers.Spec{Dir: dir, Sandbox: &sandbox.Policy{Level: level}})
			if err != nil || slices.Contains(dirs, env) != want || slices.Contains(dirs, data) {
				t.Errorf("%s, %s: got %q, %v", dir, level, dirs, err)
			}
		}
	}
}
