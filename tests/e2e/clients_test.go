//go:build unix

package e2e

import (
	"strings"
	"testing"
)

func TestWait(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	h.runRepl(t, "", "exec", "main", "-e", "import time; time.sleep(0.2)", "--wait", "0s")
	wantResult(t, h.runRepl(t, "", "wait", "main"), result{"", "", 0})
	wantResult(t, h.runRepl(t, "", "wait", "main"), result{"", "", 0})
	h.runRepl(t, "", "exec", "main", "-e", "input('name? ')", "--wait", "0s")
	wantResult(t, h.runRepl(t, "", "wait", "main"), result{"", "repl: waiting for input: \"name? \" (answer with repl input main)\n", 5})
	h.runRepl(t, "", "input", "main", "-e", "ada")
	h.runRepl(t, "", "exec", "main", "-e", "time.sleep(0.2); 1/0", "--wait", "0s")
	if r := h.runRepl(t, "", "wait", "main"); r.status != 1 {
		t.Errorf("after an error: %v", r)
	}
	h.runRepl(t, "", "exec", "main", "-e", "time.sleep(600)", "--wait", "0s")
	wantResult(t, h.runRepl(t, "", "wait", "main", "--timeout", "50ms"), result{"", "repl: main is still running after 50ms\n", 4})
	if r := h.runRepl(t, "", "wait", "nobody"); r.status != 1 || !strings.Contains(r.stderr, "no session") {
		t.Errorf("of no session: %v", r)
	}
}

func TestClients_ListAndDetach(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	h.runRepl(t, "", "exec", "main", "-e", "1")
	wantResult(t, h.runRepl(t, "", "clients"), result{"", "no other client is connected\n", 0})
	p := h.startTerminal(t, "attach", "main", "--exclusive", "--as", "ada")
	p.waitText(">>> ")
	r := h.runRepl(t, "", "clients", "main")
	if r.status != 0 || !strings.Contains(r.stdout, "ada") || !strings.Contains(r.stdout, "main: watches, holds the write lock") {
		t.Errorf("got %v", r)
	}
	if r := h.runRepl(t, "", "exec", "main", "-e", "2"); r.status != 1 || !strings.Contains(r.stderr, "ada has the write lock") || !strings.Contains(r.stderr, "repl detach") {
		t.Errorf("while ada holds it: %v", r)
	}
	wantResult(t, h.runRepl(t, "", "detach", "--lock-holder", "main"), result{"", "", 0})
	p.waitText("you were detached by ")
	_ = p.cmd.Wait()
	wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "2"), result{"2\n", "", 0})
	if r := h.runRepl(t, "", "detach", "client-0"); r.status != 1 || !strings.Contains(r.stderr, `no client "client-0"`) {
		t.Errorf("without a holder: %v", r)
	}
}

// Neither the output of code nor the names of other users can harm the terminal of a watching user.
func TestEvents_SanitizeOutput(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	h.runRepl(t, "", "exec", "main", "-e", `print('a\x1b]52;c;aGFjaw==\x07b\x1b[2J\x1b[31mred\x1b[0m \u202eleft\x9b6nx')`)
	got := h.runRepl(t, "", "events", "main").stdout
	if !strings.Contains(got, "ab\x1b[31mred\x1b[0m leftx\n") {
		t.Errorf("got %q", got)
	}
	p := h.startTerminal(t, "attach", "main")
	p.waitText("left")
	p.waitText("Ctrl-D leaves, ")
	for _, act := range []string{"\x1b]52", "\x1b[2J", "\u202e"} {
		if strings.Contains(p.raw, act) {
			t.Errorf("the terminal got %q in %q", act, p.raw)
		}
	}
}
