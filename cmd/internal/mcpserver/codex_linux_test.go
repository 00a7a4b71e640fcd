package mcpserver_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// allowing returns the params of a call by a Codex whose own commands write these directories.
func allowing(args map[string]any, dirs ...string) map[string]any {
	entries := []any{map[string]any{"access": "read", "path": map[string]any{"type": "special", "value": map[string]any{"kind": "root"}}}}
	for _, dir := range dirs {
		entries = append(entries, map[string]any{"access": "write", "path": map[string]any{"type": "path", "path": dir}})
	}
	files := map[string]any{"type": "restricted", "entries": entries}
	return byCodex(args, map[string]any{"type": "managed", "network": "restricted", "file_system": files})
}

func byCodex(args, profile map[string]any) map[string]any {
	return map[string]any{"name": "repl", "arguments": args,
		"_meta": map[string]any{"codex/sandbox-state-meta": map[string]any{"permissionProfile": profile}}}
}

func (c *client) calls(params map[string]any) string {
	c.t.Helper()
	return c.resultOf(c.send("tools/call", params)).text()
}

func typed(text string) map[string]any { return map[string]any{"input": text} }

func TestCodex_ASessionIsAsNarrowAsItsOwnCommands(t *testing.T) {
	t.Parallel()
	s, outside, _ := confinedSetup(t)
	inside := filepath.Join(s.dir, "x")
	c := greet(t, &s) // main is opened ahead, and may write its directory
	got := c.calls(allowing(typed("create " + inside)))
	if there(inside) {
		t.Errorf("it was written where Codex allows nothing to be: %s", got)
	}
	wantPart(t, got, "[sandbox read-only: ", "Codex allows its own commands no more", "read-only file system")
	got = c.calls(allowing(in("new", "create "+inside), s.dir, outside))
	wantPart(t, got, "[sandbox workspace: it writes "+s.dir+" and", "made")
	if got := c.calls(allowing(in("new", "create "+filepath.Join(outside, "x")), s.dir, outside)); there(filepath.Join(outside, "x")) {
		t.Errorf("Codex has widened a session: %s", got)
	}
}

func TestCodex_FullAccessWidensNothing(t *testing.T) {
	t.Parallel()
	s, outside, _ := confinedSetup(t)
	c := greet(t, &s)
	file := filepath.Join(outside, "x")
	got := c.calls(byCodex(typed("create "+file), map[string]any{"type": "disabled"}))
	wantPart(t, got, "[sandbox workspace: ", "read-only file system")
	if there(file) || strings.Contains(got, "Codex") {
		t.Errorf("got %s", got)
	}
}

// A user may change the mind between two calls.
func TestCodex_ALiveSessionThatMayDoMoreRunsNothing(t *testing.T) {
	t.Parallel()
	s, _, _ := confinedSetup(t)
	c := greet(t, &s)
	file := func(name string) string { return filepath.Join(s.dir, name) }
	wantPart(t, c.calls(allowing(typed("create "+file("one")), s.dir)), "made")
	got := c.calls(allowing(typed("create " + file("two"))))
	wantPart(t, got, "NOT run", "has the sandbox workspace, network none, and Codex now allows read-only, network none")
	if there(file("two")) {
		t.Error("it was written")
	}
	wantPart(t, c.calls(allowing(in("new", "create "+file("two")))), "[sandbox read-only: ", "read-only file system")
	wantText(t, c.calls(allowing(typed("create "+file("two")), s.dir)), "made") // the variables of main are there
}

func TestCodex_BoundsASessionWithoutASandbox(t *testing.T) {
	t.Parallel()
	s, _, _ := confinedSetup(t)
	s.sandbox = nil
	s.specs = map[string]func(string) workers.Spec{"fake": func(dir string) workers.Spec {
		spec := fake(nil)(dir)
		spec.Sandbox = nil // also where all tests have one
		return spec
	}}
	c := greet(t, &s)
	file := filepath.Join(s.dir, "x")
	wantPart(t, c.calls(allowing(typed("create "+file))), "[sandbox read-only: ", "Codex allows its own commands no more")
	if there(file) {
		t.Error("it was written")
	}
}
