package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

func TestType(t *testing.T) {
	t.Parallel()
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
	}
	h := newDaemonHome(t)
	h.startDaemon(t)
	wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "import os"), result{"", "repl: main is a new session\n", 0})
	const stale = "repl: no code is running, so no program could read keys\n"
	wantResult(t, h.runRepl(t, "", "type", "main", "x<Enter>"), result{"", stale, 1})
	if r := h.runRepl(t, "", "screen", "main"); r.status != 1 || !strings.Contains(r.stderr, "no code is running") {
		t.Errorf("a screen between turns: %v", r)
	}

	// Each line answers one question of the program.
	const ask = `os.system("echo name?; read a; echo hi $a; read a; echo ${#a} bytes; stty -icanon -echo; k=$(dd bs=1 count=1 2>/dev/null); stty icanon echo; echo key $k")`
	if r := h.runRepl(t, "", "exec", "main", "-e", ask); r.stdout != "name?\n" || r.status != 5 {
		t.Fatalf("got %v", r)
	}
	if r := h.runRepl(t, "", "screen", "main"); r.stdout != "name?\n" || !strings.HasPrefix(r.stderr, "repl: screen 120x40, cursor at line 2, column 1; sh") || r.status != 0 {
		t.Errorf("a screen: %v", r)
	}
	if r := h.runRepl(t, "", "screen", "main", "--json"); !strings.Contains(r.stdout, `"cursor_row": 2`) || r.status != 0 {
		t.Errorf("a screen as JSON: %v", r)
	}
	if r := h.runRepl(t, "", "type", "main", "no<Nope>"); r.status != 1 || !strings.Contains(r.stderr, "<Enter>") {
		t.Errorf("an unknown key: %v", r)
	}
	if r := h.runRepl(t, "", "type", "main", "Ada<Enter>"); r.stdout != "hi Ada\n" || r.status != 5 {
		t.Errorf("text: %v", r)
	}
	if r := h.runRepl(t, "hunter2<Enter>\n", "type", "main", "--secret"); r.stdout != "7 bytes\n" || r.status != 5 || !strings.Contains(r.stderr, "dd waits for keys (repl screen main shows it; answer with repl type main, or repl input main)") {
		t.Errorf("a secret: %v", r)
	}
	if r := h.runRepl(t, "k", "type", "main", "--bytes"); r.stdout != "key k\n0\n" || r.status != 0 {
		t.Errorf("bytes: %v", r)
	}
	r := h.runRepl(t, "", "events", "main")
	for _, want := range []string{" (type) typed Ada<Enter>]\n", " (type) typed secret keys]\n", " (type) typed k]\n"} {
		if strings.Count(r.stdout, want) != 1 {
			t.Errorf("the events lack %q: %s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "hunter2") {
		t.Errorf("the events have the secret: %s", r.stdout)
	}
}

// A program that nobody sees reading gets keys, and the command returns after its wait.
func TestType_Unseen(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	h.runRepl(t, "", "exec", "main", "-e", "import select, sys, time", "-e", "while not select.select([0], [], [], 0)[0]: time.sleep(0.01)", "-e", "", "-e", "open(0).readline()", "--wait", "0s")
	wait.Until(t, "keys can be typed", func() bool { return h.runRepl(t, "", "type", "main", "y", "--wait", "0s").status == 4 })
	if r := h.runRepl(t, "", "type", "main", "<Enter>"); !strings.Contains(r.stdout, `y\n`) || r.status != 0 {
		t.Errorf("got %v", r)
	}
}

func TestType_Usage(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"type"}, "type needs the name of a session"},
		{[]string{"type", "main"}, "type needs KEYS"},
		{[]string{"type", "main", "a", "b"}, "quote KEYS with blanks"},
		{[]string{"type", "main", "a", "--bytes"}, "use either KEYS or --bytes"},
		{[]string{"type", "main", "a", "--secret"}, "other programs can see a command line"},
		{[]string{"type", "main", "a", "--wait", "-1s"}, "use 0 or more"},
		{[]string{"exec", "main", "-e", "1", "--term", "../x"}, "use the name of a terminal"},
	} {
		if r := h.runRepl(t, "", test.args...); r.status != 2 || !strings.Contains(r.stderr, test.says) {
			t.Errorf("%q: got %v", test.args, r)
		}
	}
}

func TestTerm(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "plain"}, "dumb\n"},
		{[]string{"exec", "drawn", "--term", "xterm-256color"}, "xterm-256color\n"},
		{[]string{"--term", "vt100"}, "vt100\n"},
	} {
		if r := h.runRepl(t, "", append(test.args, "-e", `import os; print(os.environ["TERM"])`)...); r.stdout != test.want || r.status != 0 {
			t.Errorf("%q: got %v", test.args, r)
		}
	}
}
