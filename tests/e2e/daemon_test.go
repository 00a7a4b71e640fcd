//go:build unix

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

func TestAttach(t *testing.T) {
	t.Parallel()

	t.Run("shows earlier output and takes input", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 41; print('from the agent')"), result{"from the agent\n", newSessionNotice("main"), 0})
		p := h.startTerminal(t, "attach", "main")
		p.waitText("> x = 41; print('from the agent')")
		p.waitText("from the agent\r\n")
		p.waitText(`Ctrl-D leaves, and Ctrl-\ at any time.`)
		p.waitText(">>> ")
		p.typeKeys("x + 1\r")
		p.waitText("42\r\n")
		isFree := func() bool {
			s := h.listSessions(t)["main"]
			return s.State == session.StateIdle && s.WriteLockHolder == ""
		}
		wait.Until(t, "the turn is over", isFree)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print('agent', 'again')"), result{"agent again\n", "", 0})
		p.waitText("> print('agent', 'again')")
		p.waitText("agent again\r\n")
		p.typeKeys("y = input('who? ')\r")
		wait.Until(t, "it waits", func() bool { return h.listSessions(t)["main"].State == session.StateWaiting })
		if r := h.runRepl(t, "", "input", "main", "-e", "eve"); r.status != 1 || !strings.Contains(r.stderr, "has the write lock") {
			t.Errorf("an answer by another client while the user has the write lock: %v", r)
		}
		p.typeKeys("ada\r")
		wait.Until(t, "the turn is over", isFree)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "y"), result{"'ada'\n", "", 0})
		p.typeKeys("import time; time.sleep(600)\r")
		wait.Until(t, "the turn runs", func() bool { return h.listSessions(t)["main"].State == session.StateRunning })
		p.typeKeys("\x03")
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
		p.typeKeys("\x04")
		p.waitText("[detached: main goes on")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x"), result{"41\n", "", 0})
	})

	t.Run("two terminals of one user see each other", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 1"), result{"", newSessionNotice("main"), 0})
		first := h.startTerminal(t, "attach", "main")
		first.waitText(">>> ")
		second := h.startTerminal(t, "attach", "main", "--as", "ada")
		second.waitText(">>> ")
		first.typeKeys("x + 1\r")
		second.waitText(")> x + 1") // the name is shown before it
		second.waitText("2\r\n")
		wait.Until(t, "the turn is over", func() bool { return h.listSessions(t)["main"].WriteLockHolder == "" })
		second.typeKeys("import time; time.sleep(600)\r")
		first.waitText("ada> import time; time.sleep(600)")
		first.typeKeys("\x03") // on an empty line it interrupts the running code
		second.waitText("interrupted by ")
		second.waitText("KeyboardInterrupt")
	})

	t.Run("an attached user answers the code of an agent", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 1"), result{"", newSessionNotice("main"), 0})
		p := h.startTerminal(t, "attach", "main")
		p.waitText(">>> ")
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = input('who' + '? ')"),
			result{"who? ", "repl: waiting for input: \"who? \" (answer with repl input main)\n", 5})
		p.waitText("who? ")          // shown as output
		p.waitDrawn("\x1b[6G\x1b[K") // the prompt after it is removed, and a new one waits for an answer
		p.typeKeys("ada\r")
		wait.Until(t, "the answer has come", func() bool { return h.listSessions(t)["main"].State == session.StateIdle })
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x"), result{"'ada'\n", "", 0})
		p.typeKeys("x = ") // half-typed text is kept
		p.waitText("x = ")
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "y = input('and' + '? ')"),
			result{"and? ", "repl: waiting for input: \"and? \" (answer with repl input main)\n", 5})
		p.waitText("and? ")
		wantResult(t, h.runRepl(t, "", "input", "main", "-e", "eve"), result{"", "", 0})
		p.waitText(">>> x = ") // the question is closed here, too
		p.typeKeys("7\r")
		wait.Until(t, "the line was run", func() bool {
			s := h.listSessions(t)["main"]
			return s.Turn == 5 && s.State == session.StateIdle && s.WriteLockHolder == ""
		})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x, y"), result{"(7, 'eve')\n", "", 0})
	})

	t.Run("reports the end of the session or the daemon", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		daemon := h.startDaemon(t)
		for _, name := range []string{"a", "b"} {
			wantResult(t, h.runRepl(t, "", "exec", name, "-e", "1"), result{"1\n", newSessionNotice(name), 0})
		}
		p := h.startTerminal(t, "attach", "a")
		p.waitText(">>> ")
		wantResult(t, h.runRepl(t, "", "close", "a"), result{"", "", 0})
		p.waitText("the session was closed")
		_ = p.cmd.Wait()
		if got := exitStatusOf(t, p.cmd); got != 1 {
			t.Errorf("after a close: status %d, want 1", got)
		}
		p = h.startTerminal(t, "attach", "b")
		p.waitText(">>> ")
		_ = daemon.Process.Kill()
		p.waitText("the connection to the daemon ended")
		_ = p.cmd.Wait()
		if got := exitStatusOf(t, p.cmd); got != 3 {
			t.Errorf("after the daemon's end: status %d, want 3", got)
		}
	})

	t.Run("shows one screen of a long session", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		if r := h.runRepl(t, "", "exec", "main", "-e", "for i in range(20_000): print('line', i)"); r.status != 0 {
			t.Fatal(r)
		}
		p := h.startTerminal(t, "attach", "main")
		p.waitText("[earlier output is not shown; repl events main prints all of it]\r\nline 19980\r\n")
		p.waitText("line 19999\r\n")
		p.waitText(">>> ")
		p.typeKeys("\x04")
		p.waitText("[detached: main goes on")
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	})

	t.Run("the next input starts a runtime that has ended", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		for _, code := range []string{"import os; os._exit(3)", "import os; os._exit(0)"} {
			h.runRepl(t, "", "exec", "main", "-e", code)
			p := h.startTerminal(t, "attach", "main")
			p.waitText("exit status ")
			p.waitText("> ")
			p.typeKeys("6 * 7\r")
			p.waitText("42\r\n")
			p.waitText(">>> ")
			p.typeKeys("\x04")
			p.waitText("[detached: main goes on")
		}
	})

	t.Run("one key detaches at any time", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			name, code string
			state      session.State
		}{
			{"at a question", "name = input('who? ')", session.StateWaiting},
			{"at a secret", "import getpass; name = getpass.getpass('who? ')", session.StateWaiting},
			{"while code runs", "print('who' + '? '); import time; time.sleep(600)", session.StateRunning},
			{"while it prints much", "while True: print('who' + '? ' + 'x' * 100)", session.StateRunning},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				h := newDaemonHome(t)
				h.startDaemon(t)
				wantResult(t, h.runRepl(t, "", "exec", "main", "--wait", "0s", "-e", test.code), result{"", newSessionNotice("main") +
					"repl: still running; repl events main --follow shows further output, repl interrupt main stops it\n", 4})
				p := h.startTerminal(t, "attach", "main")
				p.waitText("who? ")
				wait.Until(t, "it is "+test.state.String(), func() bool { return h.listSessions(t)["main"].State == test.state })
				p.typeKeys("\x1c")
				p.waitText("[detached: main goes on")
				_ = p.cmd.Wait()
				if got := exitStatusOf(t, p.cmd); got != 0 {
					t.Errorf("got status %d, want 0", got)
				}
				if got := h.listSessions(t)["main"].State; got != test.state {
					t.Errorf("it was %s and is %s", test.state, got)
				}
			})
		}
	})

	t.Run("the width of R follows the latest terminal", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		h.env = append(h.env, "TURNSTONE_SOCKET="+newSocketName(t))
		h.startDaemon(t)
		width := func() string {
			return h.runRepl(t, "", "exec", "main", "--lang", "r", "-e", "cat(getOption('width'))").stdout
		}
		if got := width(); got != "80" {
			t.Errorf("without a terminal: got %s, want 80", got)
		}
		p := h.startTerminal(t, "attach", "main")
		p.waitText("> ")
		p.typeKeys("getOption('width')\r")
		p.waitText("[1] 100\r\n")
		if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "it has the new width", func() bool { return width() == "70" })
		h.runRepl(t, "", "reset", "main")
		if got := width(); got != "70" {
			t.Errorf("after a reset: got %s, want 70", got)
		}
	})

	t.Run("the session has the size of the latest terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		if r := h.runRepl(t, "", "exec", "main", "-e", "import os"); r.status != 0 {
			t.Fatal(r)
		}
		p := h.startTerminal(t, "attach", "main")
		p.waitText(">>> ")
		p.typeKeys("os.get_terminal_size()\r")
		p.waitText("columns=100, lines=24")
		if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the session has the new size", func() bool {
			return strings.Contains(h.runRepl(t, "", "exec", "main", "-e", "os.get_terminal_size()").stdout, "columns=70, lines=30")
		})
	})
}

// freeze stops a child process until the end of the test, and returns when all its threads have
// stopped.
func freeze(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Signal(syscall.SIGCONT) })
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v", err)
	}
}

func TestStuckDaemon(t *testing.T) {
	t.Parallel()

	// A stopped daemon behaves like a daemon that hangs.
	t.Run("delays no other request of the MCP server", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		cmd := h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		a.callRepl("1")
		freeze(t, cmd.Process)
		if got := a.callTool("repl_sessions", nil); !strings.Contains(got, "the daemon does not respond") {
			t.Errorf("its sessions: %q", got)
		}
		a.request("tools/list", map[string]any{})
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if got := a.callRepl("40 + 2"); !strings.HasSuffix(got, "42") {
			t.Errorf("once the daemon continues: %q", got)
		}
	})

	t.Run("commands report that it does not answer", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		freeze(t, h.startDaemon(t).Process)
		for _, command := range [][]string{{"daemon", "status"}, {"daemon", "stop"}, {"list"}, {"exec", "main", "-e", "1"}, {"serve", "--detach"}} {
			t.Run(strings.Join(command, " "), func(t *testing.T) {
				t.Parallel()
				r := h.runRepl(t, "", command...)
				if r.status != 3 || command[0] != "serve" && !strings.Contains(r.stderr, "stopped or stuck") {
					t.Errorf("got %v", r)
				}
			})
		}
	})
}
