package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// Another session that can write to the same workspace could otherwise choose what becomes writable,
// or visible, in this one.
func TestStartSandboxSymlink(t *testing.T) {
	t.Parallel()
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
	sandboxPlan, _, err := plan.NewPlan(&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, plan.Origin{
		Home: filepath.Join(base, "home"), Dir: work, Program: "/bin/true", State: filepath.Join(base, "state"),
		Sessions: filepath.Join(base, "sessions"), Temporary: []string{filepath.Join(base, "tmp")},
	})
	if err != nil {
		t.Fatal(err)
	}
	start := func() error {
		p, err := launch.Start(&launch.StartConfig{Path: "/bin/true", Env: os.Environ(), Dir: work, Sandbox: &launch.SandboxConfig{Plan: func() (*plan.Plan, error) { return sandboxPlan, nil }}})
		if err != nil {
			return err
		}
		return p.Close()
	}
	if err := start(); err != nil {
		// On Ubuntu, AppArmor allows the user namespace, and then refuses the others.
		if strings.Contains(err.Error(), "sandbox: user namespace") || strings.Contains(err.Error(), "sandbox: namespaces") {
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

// The plan is computed while the monitor starts, so a failure must not leave the monitor behind. It is
// found among all monitors of this process, so the test is not parallel.
func TestStartSandboxPlanError(t *testing.T) {
	failed := errors.New("no such workspace")
	var monitor int
	_, err := launch.Start(&launch.StartConfig{Path: "/bin/true", Sandbox: &launch.SandboxConfig{Plan: func() (*plan.Plan, error) {
		children, err := filepath.Glob("/proc/self/task/*/children")
		for _, path := range children {
			text, _ := os.ReadFile(path)
			for pid := range strings.FieldsSeq(string(text)) {
				if args, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(args), "turnstone-monitor\x00") {
					monitor, _ = strconv.Atoi(pid)
				}
			}
		}
		return nil, errors.Join(failed, err)
	}}})
	if err != nil && strings.Contains(err.Error(), "sandbox: user namespace") {
		t.Skip(err)
	}
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want the plan's error", err)
	}
	if monitor == 0 {
		t.Error("no monitor had been started yet")
	} else if testexec.IsAlive(monitor) {
		t.Errorf("monitor %d still exists", monitor)
	}
}
