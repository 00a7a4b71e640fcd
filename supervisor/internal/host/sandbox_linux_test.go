package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/workers"
)

// Another session that writes the same workspace could otherwise choose what becomes
// writable, or visible, in this one.
func TestStart_DirectoryOfASandboxBecameALinkThenItIsRefused(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, repository := filepath.Join(base, "work"), filepath.Join(base, "work", "repository")
	for _, dir := range []string{"work/repository/.git/hooks", "state", "sessions", "tmp", "other/.git/hooks"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	plan, _, err := confine.NewPlan(&workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}, confine.Origin{
		Home: filepath.Join(base, "home"), Dir: work, Program: "/bin/true", State: filepath.Join(base, "state"),
		Sessions: filepath.Join(base, "sessions"), Temporary: []string{filepath.Join(base, "tmp")},
	})
	if err != nil {
		t.Fatal(err)
	}
	start := func() error {
		p, err := host.Start(&host.Command{Path: "/bin/true", Env: os.Environ(), Dir: work, Sandbox: plan})
		if err != nil {
			return err
		}
		return p.Close()
	}
	if err := start(); err != nil {
		if strings.Contains(err.Error(), "sandbox: user namespace") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(repository, filepath.Join(work, "away")), os.Symlink("../other", repository)); err != nil {
		t.Fatal(err)
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), `sandbox: clone "`+repository) {
		t.Errorf("got %v, want a refusal to follow %s", err, repository)
	}
}
