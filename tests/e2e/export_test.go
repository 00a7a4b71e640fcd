//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExport_AScriptDoesAgainWhatTheSessionDid(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	h.run(t, "def double(x):\n    return 2 * x\n", "exec", "main")
	h.run(t, "", "exec", "main", "-e", "no such thing")
	h.run(t, "", "exec", "main", "-e", "print(double(21))")
	script := filepath.Join(h.dir, "out.py")
	want(t, h.run(t, "", "export", "main", "--output", script), result{"", "", 0})
	want(t, h.run(t, "", script), result{"42\n", "", 0})

	var notebook struct{ Cells []struct{ Source []string } }
	r := h.run(t, "", "export", "main", "--format", "ipynb")
	if err := json.Unmarshal([]byte(r.stdout), &notebook); err != nil || len(notebook.Cells) != 3 {
		t.Errorf("%v: %v", r, err)
	}
	if r := h.run(t, "", "export", "main", "--format", "txt"); r.status != 0 || !strings.HasSuffix(r.stdout, "print(double(21))\n42\n") {
		t.Errorf("the transcript: %v", r)
	}
	want(t, h.run(t, "", "export", "main", "--format", "R"),
		result{"", "repl: a session in Python is written as py, ipynb, txt, not as \"R\"\n", 1})
	if r := h.run(t, "", "export", "nobody"); r.status != 1 || !strings.Contains(r.stderr, "there is no session") {
		t.Errorf("no session: %v", r)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, ".export-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := os.Remove(script); err != nil {
		t.Error(err)
	}
}
