package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// Packages are prepared outside the sandbox with the session's Python, but not with one that the
// session can write.
func TestWith_Sandbox(t *testing.T) {
	t.Parallel()
	sandboxcheck.RequireNamespaces(t)
	h := withTinyPackage(t, newHome(t))
	ran := filepath.Join(h.tmp, "ran")
	if err := os.MkdirAll(filepath.Join(h.dir, ".venv/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testexec.WriteExecutable(filepath.Join(h.dir, ".venv/bin/python"), []byte("#!/bin/sh\n(>"+ran+") 2>/dev/null\nexec python3 \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, ".venv/pyvenv.cfg"), []byte("home = /usr/bin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.runRepl(t, "", "--sandbox", "workspace", "--with", "tiny", "-e", "1"); got.status != 1 || !strings.Contains(got.stderr, "is in a directory of the session") {
		t.Errorf("got %v", got)
	}
	agent := startMCPClient(t, h.command(t, "mcp", "--lang", "python", "--with", "tiny"), func() {})
	if got := agent.callRepl("1"); !strings.Contains(got, "is in a directory of the session") {
		t.Errorf("an agent: got %q", got)
	}
	if fileExists(ran) {
		t.Error("the Python of the session ran outside of the sandbox")
	}
}
