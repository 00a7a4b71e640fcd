//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

func TestExec_Output(t *testing.T) {
	t.Parallel()
	t.Run("of any length is complete in a file", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		var lines strings.Builder
		for i := range 20_000 {
			fmt.Fprintln(&lines, i)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "for i in range(20_000): print(i)"), result{lines.String(), newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "for i in range(50): print('same')"), result{strings.Repeat("same\n", 50), "", 0})
		long := strings.Repeat("x", 300_000)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print('x' * 300_000, end='')"), result{long, "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "for i in range(20_000): print(i)", "-e", "n = input()"),
			result{lines.String(), "repl: waiting for input: \"\" (answer with repl input main)\n", 5})
		wantResult(t, h.runRepl(t, "", "input", "main", "-e", "ada"), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "m = input()", "-e", "for i in range(20_000): print(i)"), result{"", "repl: waiting for input: \"\" (answer with repl input main)\n", 5})
		wantResult(t, h.runRepl(t, "", "input", "main", "-e", "eve"), result{lines.String(), "", 0})
	})
	t.Run("arrives while the code runs", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		cmd := h.command(t, "exec", "main", "-e", "import os, time; print('first')",
			"-e", "while not os.path.exists('go'): time.sleep(.01)", "-e", "", "-e", "print('last')")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, "first\n")
		if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, "last\n")
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("that a terminal omits is reported", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		p := h.startTerminal(t, "exec", "main", "-e", "for i in range(20_000): print(i)")
		p.waitText("19999")
		p.waitText("repl: the output was shortened; all of it is in ")
		p.waitText("output.txt")
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("without a reader leaves the turn running", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.command(t, "exec", "main", "-e", "import os, time; print('first')",
			"-e", "while not os.path.exists('go'): time.sleep(.01); print('more')", "-e", "", "-e", "end = 'done'")
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		readUntil(t, r, "first\n")
		_ = r.Close()
		_ = cmd.Wait()
		if got := exitStatusOf(t, cmd); got != 141 {
			t.Errorf("got status %d, want 141", got)
		}
		if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := h.runRepl(t, "", "wait", "main"); r.status != 0 {
			t.Errorf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "end"), result{"'done'\n", "", 0})
	})
}

func TestExecSession(t *testing.T) {
	t.Parallel()

	t.Run("starts in the directory of the caller", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		h.dir = t.TempDir()
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "import os; print(os.path.samefile('.', "+strconv.Quote(h.dir)+"))"), result{"True\n", newSessionNotice("main"), 0})
	})

	t.Run("reports that the variables are gone", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		gone := func(why string) string { return "repl: main was restarted, and its variables are gone: " + why + "\n" }
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 1"), result{"", newSessionNotice("main"), 0})
		if err := syscall.Kill(h.listSessions(t)["main"].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "its worker has ended", func() bool { return h.listSessions(t)["main"].State == session.StateEnded })
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 2; print(x)"), result{"2\n", gone("killed by SIGKILL"), 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print(x)"), result{"2\n", "", 0})
		h.runRepl(t, "", "exec", "main", "-e", "import os; os._exit(3)")
		p := h.startTerminal(t, "exec", "main", "-e", "3")
		p.waitText(strings.ReplaceAll(gone("exit status 3"), "\n", "\r\n"))
		p.waitText("3\r\n")
		h.runRepl(t, "", "reset", "main")
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "4"), result{"4\n", gone("reset"), 0})
	})

	t.Run("has the login variables of the caller", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.env = append([]string{"DISPLAY=:0", "SSH_AUTH_SOCK=/gone", "LATER=0"}, h.env...)
		h.startDaemon(t)
		h.env = append([]string{"DISPLAY=:7", "SSH_AUTH_SOCK=/tmp/agent", "LATER=1"}, h.env[3:]...)
		ask := func(name string, more ...string) string {
			t.Helper()
			return h.runRepl(t, "", append([]string{"exec", name, "-e", "import os; [os.environ.get(n) for n in ('DISPLAY', 'SSH_AUTH_SOCK', 'LATER')]"}, more...)...).stdout
		}
		const want = "[':7', '/tmp/agent', '0']\n"
		if got := ask("main"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		h.runRepl(t, "", "reset", "main")
		if got := ask("main"); got != want {
			t.Errorf("after a reset: got %s, want %s", got, want)
		}
	})

	t.Run("is not created in a directory that is gone", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		gone := func(args ...string) (said string) {
			t.Helper()
			cmd := h.command(t, args...)
			cmd.Args = append([]string{"sh", "-c", `mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
			cmd.Path = "/bin/sh"
			out, _ := cmd.CombinedOutput()
			return string(out)
		}
		if got := gone("exec", "main", "-e", "1"); !strings.Contains(got, "the working directory, where the session would start, is gone") {
			t.Errorf("got %q", got)
		}
		if got := h.listSessions(t); len(got) != 0 {
			t.Errorf("got the sessions %v", got)
		}
		h.runRepl(t, "", "exec", "main", "-e", "1")
		if got := gone("exec", "main", "-e", "6 * 7"); got != "42\n" {
			t.Errorf("in an existing session, got %q", got)
		}
	})

	t.Run("exec ends if the worker of its turn does not start", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		late := filepath.Join(h.dir, "late") // later than the call that starts the turn
		if err := os.WriteFile(late, []byte("#!/bin/sh\nsleep 1; echo 'no licence'; exit 3\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := h.runRepl(t, "", "exec", "main", "--worker", "own="+strconv.Quote(late), "-e", "1")
			if r.status != 1 || r.stdout != "no licence\n[session did not start: exit status 3]\n" {
				t.Errorf("got %v", r)
			}
		}
	})
}

func TestTempDir_Unwritable(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := filepath.Join(h.dir, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(h.dir, "gone"), file} {
		h.env = append(h.env, "TMPDIR="+dir)
		wantResult(t, h.runRepl(t, "", "-e", "import os, tempfile; print(os.environ['TMPDIR'], tempfile.gettempdir())"), result{"/tmp /tmp\n", "", 0})
	}
}
