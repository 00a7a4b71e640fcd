//go:build unix

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/session"
)

func TestAttach_SeesWhatWasAndTakesPart(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	want(t, h.run(t, "", "exec", "main", "-e", "x = 41; print('from the agent')"), result{"from the agent\n", newSession("main"), 0})
	p := h.start(t, "attach", "main")
	p.sees("> x = 41; print('from the agent')")
	p.sees("from the agent\r\n")
	p.sees(`Ctrl-D leaves, and Ctrl-\ at any time.`)
	p.sees(">>> ")
	p.types("x + 1\r")
	p.sees("42\r\n")
	isFree := func() bool {
		s := h.sessions(t)["main"]
		return s.State == session.StateIdle && s.WriteLockHolder == ""
	}
	eventually(t, "the turn is over", isFree)
	want(t, h.run(t, "", "exec", "main", "-e", "print('agent', 'again')"), result{"agent again\n", "", 0})
	p.sees("> print('agent', 'again')")
	p.sees("agent again\r\n")
	p.types("y = input('who? ')\r")
	eventually(t, "it waits", func() bool { return h.sessions(t)["main"].State == session.StateWaiting })
	if r := h.run(t, "", "input", "main", "-e", "eve"); r.status != 1 || !strings.Contains(r.stderr, "has the keyboard") {
		t.Errorf("an answer by another while the person has the keyboard: %v", r)
	}
	p.types("ada\r")
	eventually(t, "the turn is over", isFree)
	want(t, h.run(t, "", "exec", "main", "-e", "y"), result{"'ada'\n", "", 0})
	p.types("import time; time.sleep(600)\r")
	eventually(t, "the turn runs", func() bool { return h.sessions(t)["main"].State == session.StateRunning })
	p.types("\x03")
	p.sees("KeyboardInterrupt")
	p.sees(">>> ")
	p.types("\x04")
	p.sees("[detached: main goes on")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	want(t, h.run(t, "", "exec", "main", "-e", "x"), result{"41\n", "", 0})
}

func TestAttach_TwoOfOnePersonSeeEachOther(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	want(t, h.run(t, "", "exec", "main", "-e", "x = 1"), result{"", newSession("main"), 0})
	first := h.start(t, "attach", "main")
	first.sees(">>> ")
	second := h.start(t, "attach", "main", "--as", "ada")
	second.sees(">>> ")
	first.types("x + 1\r")
	second.sees(")> x + 1") // with a name before it
	second.sees("2\r\n")
	eventually(t, "the turn is over", func() bool { return h.sessions(t)["main"].WriteLockHolder == "" })
	second.types("import time; time.sleep(600)\r")
	first.sees("ada> import time; time.sleep(600)")
	first.types("\x03") // in an empty line it is for what runs
	second.sees("interrupted by ")
	second.sees("KeyboardInterrupt")
}

func TestAttach_WhoIsThereAnswersTheAgentsCode(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	want(t, h.run(t, "", "exec", "main", "-e", "x = 1"), result{"", newSession("main"), 0})
	p := h.start(t, "attach", "main")
	p.sees(">>> ")
	want(t, h.run(t, "", "exec", "main", "-e", "x = input('who' + '? ')"),
		result{"who? ", "repl: waiting for input: \"who? \" (answer with repl input main)\n", 5})
	p.sees("who? ")          // as output
	p.draws("\x1b[6G\x1b[K") // the prompt behind it is removed, and a new one waits for an answer
	p.types("ada\r")
	eventually(t, "the answer has come", func() bool { return h.sessions(t)["main"].State == session.StateIdle })
	want(t, h.run(t, "", "exec", "main", "-e", "x"), result{"'ada'\n", "", 0})
	p.types("x = ") // half-typed text stays
	p.sees("x = ")
	want(t, h.run(t, "", "exec", "main", "-e", "y = input('and' + '? ')"),
		result{"and? ", "repl: waiting for input: \"and? \" (answer with repl input main)\n", 5})
	p.sees("and? ")
	want(t, h.run(t, "", "input", "main", "-e", "eve"), result{"", "", 0})
	p.sees(">>> x = ") // the question is over here, too
	p.types("7\r")
	eventually(t, "the line was run", func() bool {
		s := h.sessions(t)["main"]
		return s.Turn == 5 && s.State == session.StateIdle && s.WriteLockHolder == ""
	})
	want(t, h.run(t, "", "exec", "main", "-e", "x, y"), result{"(7, 'eve')\n", "", 0})
}

func TestAttach_IsToldWhenTheSessionOrTheDaemonEnds(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	daemon := h.serve(t)
	for _, name := range []string{"a", "b"} {
		want(t, h.run(t, "", "exec", name, "-e", "1"), result{"1\n", newSession(name), 0})
	}
	p := h.start(t, "attach", "a")
	p.sees(">>> ")
	want(t, h.run(t, "", "close", "a"), result{"", "", 0})
	p.sees("the session was closed")
	_ = p.cmd.Wait()
	if got := status(t, p.cmd); got != 1 {
		t.Errorf("after a close: status %d, want 1", got)
	}
	p = h.start(t, "attach", "b")
	p.sees(">>> ")
	_ = daemon.Process.Kill()
	p.sees("the connection to the daemon ended")
	_ = p.cmd.Wait()
	if got := status(t, p.cmd); got != 3 {
		t.Errorf("after the daemon's end: status %d, want 3", got)
	}
}

// freeze stops a child of ours until the end of the test, and returns when all its threads stand.
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

// A daemon that is stopped is as one that hangs.
func TestMCP_AStuckDaemonDelaysNothingElse(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	cmd := h.serve(t)
	a := h.caller(t, "--daemon", "--name", "bot")
	a.repl("1")
	freeze(t, cmd.Process)
	if got := a.tool("repl_sessions", nil); !strings.Contains(got, "the daemon does not answer") {
		t.Errorf("its sessions: %q", got)
	}
	a.request("tools/list", map[string]any{})
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := a.repl("40 + 2"); !strings.HasSuffix(got, "42") {
		t.Errorf("once it goes on: %q", got)
	}
}

func TestAttach_ShowsOneScreenOfALongSession(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	if r := h.run(t, "", "exec", "main", "-e", "for i in range(20_000): print('line', i)"); r.status != 0 {
		t.Fatal(r)
	}
	p := h.start(t, "attach", "main")
	p.sees("[what came before is not shown: repl events main has all of it]\r\nline 19980\r\n")
	p.sees("line 19999\r\n")
	p.sees(">>> ")
	p.types("\x04")
	p.sees("[detached: main goes on")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAttach_ARuntimeThatHasEndedIsStartedByTheNextInput(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	for _, code := range []string{"import os; os._exit(3)", "import os; os._exit(0)"} {
		h.run(t, "", "exec", "main", "-e", code)
		p := h.start(t, "attach", "main")
		p.sees("exit status ")
		p.sees("> ")
		p.types("6 * 7\r")
		p.sees("42\r\n")
		p.sees(">>> ")
		p.types("\x04")
		p.sees("[detached: main goes on")
	}
}

func TestAttach_OneKeyDetachesAtAnyTime(t *testing.T) {
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
			h := daemonHome(t)
			h.serve(t)
			want(t, h.run(t, "", "exec", "main", "--wait", "0s", "-e", test.code), result{"", newSession("main") +
				"repl: still running: repl events main --follow shows what comes, repl interrupt main stops it\n", 4})
			p := h.start(t, "attach", "main")
			p.sees("who? ")
			eventually(t, "it is "+test.state.String(), func() bool { return h.sessions(t)["main"].State == test.state })
			p.types("\x1c")
			p.sees("[detached: main goes on")
			_ = p.cmd.Wait()
			if got := status(t, p.cmd); got != 0 {
				t.Errorf("got status %d, want 0", got)
			}
			if got := h.sessions(t)["main"].State; got != test.state {
				t.Errorf("it was %s and is %s", test.state, got)
			}
		})
	}
}

func TestDaemon_AStuckOneIsUnreachableInPlainWords(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	freeze(t, h.serve(t).Process)
	for _, command := range [][]string{{"ctl", "status"}, {"ctl", "stop"}, {"list"}, {"exec", "main", "-e", "1"}, {"serve", "--detach"}} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			t.Parallel()
			r := h.run(t, "", command...)
			if r.status != 3 || command[0] != "serve" && !strings.Contains(r.stderr, "stopped or stuck") {
				t.Errorf("got %v", r)
			}
		})
	}
}

func TestAttach_TheWidthOfRIsThatOfTheLatestTerminal(t *testing.T) {
	t.Parallel()
	h := newRHome(t)
	h.env = append(h.env, "REPL_SOCKET="+socketName(t))
	h.serve(t)
	width := func() string {
		return h.run(t, "", "exec", "main", "--lang", "r", "-e", "cat(getOption('width'))").stdout
	}
	if got := width(); got != "80" {
		t.Errorf("nobody looks: got %s, want 80", got)
	}
	p := h.start(t, "attach", "main")
	p.sees("> ")
	p.types("getOption('width')\r")
	p.sees("[1] 100\r\n")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has the new width", func() bool { return width() == "70" })
	h.run(t, "", "reset", "main")
	if got := width(); got != "70" {
		t.Errorf("after a reset: got %s, want 70", got)
	}
}

func TestAttach_TheSessionHasTheSizeOfTheLatestTerminal(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	if r := h.run(t, "", "exec", "main", "-e", "import os"); r.status != 0 {
		t.Fatal(r)
	}
	p := h.start(t, "attach", "main")
	p.sees(">>> ")
	p.types("os.get_terminal_size()\r")
	p.sees("columns=100, lines=24")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session has the new size", func() bool {
		return strings.Contains(h.run(t, "", "exec", "main", "-e", "os.get_terminal_size()").stdout, "columns=70, lines=30")
	})
}
