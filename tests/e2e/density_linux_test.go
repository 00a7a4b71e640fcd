package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// countSessionFiles counts the open files of a process that may belong to a session.
func countSessionFiles(pid int) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		to, _ := os.Readlink(link)
		switch base := filepath.Base(to); {
		case strings.HasPrefix(base, "pipe:"), base == "ptmx", base == "lock", base == "events", base == "output.txt", strings.Contains(base, "pidfd"):
			n++
		}
	}
	return n
}

func TestOpenFiles(t *testing.T) {
	t.Parallel()

	t.Run("an idle session has six descriptors", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		daemon := h.startDaemon(t)
		before := countSessionFiles(daemon.Process.Pid)
		for _, name := range []string{"one", "two", "three"} {
			wantResult(t, h.runRepl(t, "", "exec", name, "-e", "print(6 * 7)"), result{"42\n", newSessionNotice(name), 0})
		}
		wait.Until(t, "three idle sessions have 18 descriptors", func() bool { return countSessionFiles(daemon.Process.Pid)-before == 18 })
		wantResult(t, h.runRepl(t, "", "exec", "one", "-e", "print('again')"), result{"again\n", "", 0})
		wait.Until(t, "the output is in the file", func() bool {
			text, _ := os.ReadFile(h.listSessions(t)["one"].OutputPath)
			return strings.Contains(string(text), "42\n") && strings.Contains(string(text), "again\n")
		})
		wait.Until(t, "they have 18 again", func() bool { return countSessionFiles(daemon.Process.Pid)-before == 18 })
	})

	t.Run("too low a limit is reported before anything fails", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemonInShell(t, "ulimit -n 288")
		for _, name := range []string{"one", "two", "three", "four"} {
			wantResult(t, h.runRepl(t, "", "exec", name, "-e", "6 * 7"), result{"42\n", newSessionNotice(name), 0})
		}
		r := h.runRepl(t, "", "exec", "five", "-e", "6 * 7")
		if r.status == 0 || !strings.Contains(r.stderr, "4 are open") || !strings.Contains(r.stderr, "288 open files") || !strings.Contains(r.stderr, "ulimit -Hn") {
			t.Errorf("a session too many: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "close", "one"), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "five", "-e", "6 * 7"), result{"42\n", newSessionNotice("five"), 0})
	})
}
