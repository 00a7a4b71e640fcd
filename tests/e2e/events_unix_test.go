//go:build unix

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

func TestEvents(t *testing.T) {
	t.Parallel()

	// repl events NAME --follow | head -1 must end, even if the next event takes long.
	t.Run("end when their reader leaves", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 6"), result{"", newSessionNotice("main"), 0})
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.command(t, "events", "main", "--follow")
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		readUntil(t, r, "x = 6")
		_ = r.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("a session is not shown at its own terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		for _, args := range []string{"attach main", "attach --watch main", "events --follow main"} {
			code := fmt.Sprintf("import subprocess; subprocess.run([%q] + %q.split()).returncode", replbin.Path(), args)
			got := h.runRepl(t, "", "exec", "main", "-e", code)
			if !strings.Contains(got.stdout, "which cannot show itself") || !strings.HasSuffix(got.stdout, "\n2\n") {
				t.Errorf("%s: got %v, want a refusal", args, got)
			}
		}
		toFile := fmt.Sprintf("subprocess.run([%q, 'events', 'main'], stdout=subprocess.DEVNULL).returncode", replbin.Path())
		if got := h.runRepl(t, "", "exec", "main", "-e", toFile); got.stdout != "0\n" {
			t.Errorf("events up to now: got %v", got)
		}
	})
}
