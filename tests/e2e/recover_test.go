//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// waitSaved waits until a file contains the input of a session, because files are written a little
// later.
func (h home) waitSaved(t *testing.T, text string) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("a file has %q", text), func() (kept bool) {
		for _, dir := range []string{h.tmp, h.envValue("XDG_STATE_HOME")} {
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					content, _ := os.ReadFile(path)
					kept = kept || bytes.Contains(content, []byte(text))
				}
				return nil // files may disappear in the meantime
			})
		}
		return kept
	})
}

func TestRecover(t *testing.T) {
	t.Parallel()

	t.Run("work can be repeated after the daemon was killed", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		daemon := h.startDaemon(t)
		h.runRepl(t, "def double(x):\n    return 2 * x\n", "exec", "work")
		h.runRepl(t, "", "exec", "work", "-e", "no such thing")
		h.runRepl(t, "", "exec", "work", "-e", "print(double(21))")
		h.runRepl(t, "", "exec", "closed", "-e", "1")
		h.runRepl(t, "", "close", "closed")
		if r := h.runRepl(t, "", "recover"); r.stdout != "" || r.status != 0 || !strings.Contains(r.stderr, "no session crashed") {
			t.Errorf("before the crash: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "work", "-e", "last = 'of the four'"), result{"", "", 0})
		h.waitSaved(t, "of the four")
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = daemon.Wait()

		h.startDaemon(t)
		r := h.runRepl(t, "", "exec", "work", "-e", "print('double' in dir())")
		if r.stdout != "False\n" || !strings.Contains(r.stderr, "work is new; the session before it crashed") || !strings.Contains(r.stderr, "repl recover work writes") {
			t.Errorf("the next one: %v", r)
		}
		if r := h.runRepl(t, "", "exec", "work", "-e", "1"); r.stderr != "" {
			t.Errorf("the second time it is reported again: %v", r)
		}
		if r := h.runRepl(t, "", "events", "work"); !strings.Contains(r.stdout, "repl recover work") {
			t.Errorf("attach reports it: %v", r)
		}
		r = h.runRepl(t, "", "recover")
		if lines := strings.Split(r.stdout, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "work ") || !strings.Contains(lines[1], " 4 ") {
			t.Errorf("the list: %v", r)
		}
		id := strings.Fields(strings.Split(r.stdout, "\n")[1])
		if output, err := os.ReadFile(id[len(id)-1]); err != nil || !strings.Contains(string(output), "42\n") {
			t.Errorf("the output: %q, %v", output, err)
		}
		script := filepath.Join(h.dir, "out.py")
		wantResult(t, h.runRepl(t, "", "recover", "work", "-o", script), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", script), result{"42\n", "", 0})
		text, err := os.ReadFile(script)
		if err != nil || !strings.Contains(string(text), "# no such thing\n") || !strings.Contains(string(text), "(exec)") {
			t.Errorf("the script: %q, %v", text, err)
		}
		var notebook struct{ Cells []struct{ Source []string } }
		r = h.runRepl(t, "", "recover", "work", "--format", "notebook")
		if err := json.Unmarshal([]byte(r.stdout), &notebook); err != nil || len(notebook.Cells) != 4 {
			t.Errorf("%v: %v", r, err)
		}
		if r := h.runRepl(t, "", "recover", "work", "--format", "text"); r.status != 0 || !strings.Contains(r.stdout, "print(double(21))\n42\n") {
			t.Errorf("the transcript: %v", r)
		}
		if r := h.runRepl(t, "", "recover", "closed"); r.status != 1 || !strings.Contains(r.stderr, `no session "closed" crashed`) {
			t.Errorf("a closed session: %v", r)
		}
		if r := h.runRepl(t, "", "recover", "work", "--format", "pdf"); r.status != 2 {
			t.Errorf("got %v", r)
		}
	})

	t.Run("a model learns that its server was killed", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		a := newAgent(t, h)
		a.callRepl("precious = 42")
		h.waitSaved(t, "precious = 42")
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = a.cmd.Wait()
		b := newAgent(t, h)
		if got := b.callRepl("1 + 1"); !strings.Contains(got, `"repl recover main" writes its inputs`) || !strings.Contains(got, "output.txt") || !strings.HasSuffix(got, "2") {
			t.Errorf("its first reply: %q", got)
		}
		if r := h.runRepl(t, "", "recover", "main"); r.status != 0 || !strings.Contains(r.stdout, "precious = 42") {
			t.Errorf("got %v", r)
		}
		_ = b.in.Close()
		_ = b.cmd.Wait()
	})
}
