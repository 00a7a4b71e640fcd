//go:build unix

package mcpserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// The last output of a failed start explains the failure best.
func TestFailedStartShowsOutput(t *testing.T) {
	t.Parallel()
	talks := func(dir string) workers.Spec {
		spec := fakeSpec(nil)(dir)
		spec.Path, spec.Args = "/bin/sh", []string{"-c", "echo no module named encodings; exit 1"}
		return spec
	}
	c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": talks}})
	wantPart(t, c.runRepl("print 1"), "no module named encodings\n[session did not start: exit status 1", "]\n[your input was NOT run")
}

// Sessions start in a checkout that was removed and recreated under the same name, without a new
// server.
func TestRecreatedDirectory(t *testing.T) {
	project, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project = filepath.Join(project, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	c := newInitializedClient(t, nil)
	wantText(t, c.runRepl("cwd"), project)
	if err := os.Remove(project); err != nil {
		t.Fatal(err)
	}
	got := c.call("repl_reset", nil)
	wantPart(t, got.text(), "did not start", project)
	if !got.IsError {
		t.Error("an interpreter started in a removed directory")
	}
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	c.call("repl_reset", nil)
	wantText(t, c.runRepl("cwd"), project)
	wantPart(t, c.call("repl", sessionInput("second", "cwd")).text(), project+"\n")
}
