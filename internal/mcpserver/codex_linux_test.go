package mcpserver_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// codexCallWriting returns the params of a call by a Codex whose own commands may write these
// directories.
func codexCallWriting(args map[string]any, dirs ...string) map[string]any {
	entries := []any{map[string]any{"access": "read", "path": map[string]any{"type": "special", "value": map[string]any{"kind": "root"}}}}
	for _, dir := range dirs {
		entries = append(entries, map[string]any{"access": "write", "path": map[string]any{"type": "path", "path": dir}})
	}
	files := map[string]any{"type": "restricted", "entries": entries}
	return codexCall(args, map[string]any{"type": "managed", "network": "restricted", "file_system": files})
}

func codexCall(args, profile map[string]any) map[string]any {
	return map[string]any{"name": "repl", "arguments": args,
		"_meta": map[string]any{"codex/sandbox-state-meta": map[string]any{"permissionProfile": profile}}}
}

func (c *client) callText(params map[string]any) string {
	c.t.Helper()
	return c.waitResult(c.send("tools/call", params)).text()
}

func inputArgs(text string) map[string]any { return map[string]any{"input": text} }

func TestCodexSandbox(t *testing.T) {
	t.Parallel()

	t.Run("a session is as narrow as Codex's own commands", func(t *testing.T) {
		t.Parallel()
		s, outside, _ := newConfinedSetup(t)
		inside := filepath.Join(s.dir, "x")
		c := newInitializedClient(t, &s) // main is opened ahead, and may write its directory
		got := c.callText(codexCallWriting(inputArgs("create " + inside)))
		if fileExists(inside) {
			t.Errorf("a file was written although Codex allows none: %s", got)
		}
		wantPart(t, got, "[sandbox read-only: ", "the sandbox is limited to what Codex allows its own commands", "read-only file system")
		got = c.callText(codexCallWriting(sessionInput("new", "create "+inside), s.dir, outside))
		wantPart(t, got, "[sandbox workspace: it writes "+s.dir+" and", "made")
		if got := c.callText(codexCallWriting(sessionInput("new", "create "+filepath.Join(outside, "x")), s.dir, outside)); fileExists(filepath.Join(outside, "x")) {
			t.Errorf("Codex widened a session: %s", got)
		}
	})

	t.Run("full access widens nothing", func(t *testing.T) {
		t.Parallel()
		s, outside, _ := newConfinedSetup(t)
		c := newInitializedClient(t, &s)
		file := filepath.Join(outside, "x")
		got := c.callText(codexCall(inputArgs("create "+file), map[string]any{"type": "disabled"}))
		wantPart(t, got, "[sandbox workspace: ", "read-only file system")
		if fileExists(file) || strings.Contains(got, "Codex") {
			t.Errorf("got %s", got)
		}
	})

	// A user may change the policy between two calls.
	t.Run("a session that may do more than Codex runs nothing", func(t *testing.T) {
		t.Parallel()
		s, _, _ := newConfinedSetup(t)
		c := newInitializedClient(t, &s)
		file := func(name string) string { return filepath.Join(s.dir, name) }
		wantPart(t, c.callText(codexCallWriting(inputArgs("create "+file("one")), s.dir)), "made")
		got := c.callText(codexCallWriting(inputArgs("create " + file("two"))))
		wantPart(t, got, "NOT run", "has the sandbox workspace, network none, and Codex now allows read-only, network none")
		if fileExists(file("two")) {
			t.Error("the file was written")
		}
		wantPart(t, c.callText(codexCallWriting(sessionInput("new", "create "+file("two")))), "[sandbox read-only: ", "read-only file system")
		wantText(t, c.callText(codexCallWriting(inputArgs("create "+file("two")), s.dir)), "made") // main still has its variables
	})

	t.Run("limits a session without a sandbox", func(t *testing.T) {
		t.Parallel()
		s, _, _ := newConfinedSetup(t)
		s.sandbox = nil
		s.specs = map[string]func(string) workers.Spec{"fake": func(dir string) workers.Spec {
			spec := fakeSpec(nil)(dir)
			spec.Sandbox = nil // even if all tests run in one
			return spec
		}}
		c := newInitializedClient(t, &s)
		file := filepath.Join(s.dir, "x")
		wantPart(t, c.callText(codexCallWriting(inputArgs("create "+file))), "[sandbox read-only: ", "the sandbox is limited to what Codex allows its own commands")
		if fileExists(file) {
			t.Error("the file was written")
		}
	})
}
