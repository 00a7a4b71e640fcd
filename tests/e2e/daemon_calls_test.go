package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// newDaemonHome returns a home with its own socket.
func newDaemonHome(t *testing.T) home {
	t.Helper()
	h := newHome(t)
	h.env = append(h.env, "TURNSTONE_SOCKET="+newSocketName(t))
	return h
}

func (h home) socket() string { return strings.TrimPrefix(h.env[len(h.env)-1], "TURNSTONE_SOCKET=") }

// newSessionNotice returns what repl exec prints about a session that it has created.
func newSessionNotice(name string) string { return "repl: " + name + " is a new session\n" }

// startDaemon runs a daemon until the test ends.
func (h home) startDaemon(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	return h.waitDaemon(t, h.commandWithin(t.Context(), append([]string{"serve"}, flags...)...)) // sub-tests may have to wait for their turn
}

// startDaemonInShell runs a daemon in a shell, after another command.
func (h home) startDaemonInShell(t *testing.T, command string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := h.commandWithin(t.Context(), append([]string{"serve"}, flags...)...)
	cmd.Args = append([]string{"sh", "-c", command + ` && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return h.waitDaemon(t, cmd)
}

// waitDaemon starts a daemon that runs until the test ends.
func (h home) waitDaemon(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd = withOwnConsole(cmd)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	readUntil(t, errs, "serving at ")
	go func() { _, _ = io.Copy(io.Discard, errs) }()
	t.Cleanup(func() {
		_ = stopProgram(cmd)
		_ = cmd.Wait()
	})
	return cmd
}

// listSessions returns the output of repl list.
func (h home) listSessions(t *testing.T) map[string]session.Info {
	t.Helper()
	r := h.runRepl(t, "", "list", "--json")
	var all []session.Info
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	named := make(map[string]session.Info)
	for _, s := range all {
		named[s.Name] = s
	}
	return named
}

func TestDaemon(t *testing.T) {
	t.Parallel()

	t.Run("commands share a session", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		wantResult(t, h.runRepl(t, "", "list"), result{"", "repl: no daemon answers at " + h.socket() + " (" + noSocketMessage + "); start one with repl serve\n", 3})
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "list"), result{"", "no session is open\n", 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "x = 6"), result{"", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "print(x * 7)\n", "exec", "main"), result{"42\n", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "input('name? ')"),
			result{"name? ", "repl: waiting for input: \"name? \" (answer with repl input main)\n", 5})
		wantResult(t, h.runRepl(t, "", "input", "main", "-e", "ada"), result{"'ada'\n", "", 0})
		if r := h.runRepl(t, "", "exec", "main", "-e", "1/0"); r.status != 1 || !strings.Contains(r.stdout, "ZeroDivisionError") {
			t.Errorf("an error: %v", r)
		}
		if r := h.runRepl(t, "", "exec", "main", "-e", "import time; time.sleep(60)", "--wait", "100ms"); r.status != 4 || !strings.Contains(r.stderr, "still running") {
			t.Errorf("a long turn: %v", r)
		}
		if r := h.runRepl(t, "", "exec", "main", "-e", "2"); r.status != 1 || !strings.Contains(r.stderr, "running for") {
			t.Errorf("while it runs: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "interrupt", "main"), result{"", "", 0})
		if r := h.runRepl(t, "", "events", "main"); !strings.Contains(r.stdout, "print(x * 7)\n42\n") || !strings.Contains(r.stdout, "KeyboardInterrupt") {
			t.Errorf("the events: %v", r)
		}
		if r := h.runRepl(t, "", "events", "main", "--json", "--after", "1"); !strings.HasPrefix(r.stdout, `{"seq":2,`) {
			t.Errorf("the events as JSON: %.200s", r.stdout)
		}
		wantResult(t, h.runRepl(t, "", "reset", "main"), result{"", "", 0})
		if r := h.runRepl(t, "", "exec", "main", "-e", "x"); !strings.Contains(r.stdout, "NameError") {
			t.Errorf("after a reset: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "close", "main"), result{"", "", 0})
		if r := h.runRepl(t, "", "close", "main"); r.status != 1 || !strings.Contains(r.stderr, `no session "main"`) {
			t.Errorf("a second close: %v", r)
		}
	})

	t.Run("a second daemon leaves the first alone", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		first := h.startDaemon(t)
		r := h.runRepl(t, "", "serve")
		if r.status != 3 || !strings.Contains(r.stderr, "already served: by process "+strconv.Itoa(first.Process.Pid)) {
			t.Errorf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "1"), result{"1\n", newSessionNotice("main"), 0})
	})

	t.Run("ends with everything that it started", func(t *testing.T) {
		t.Parallel()
		ends := map[string]func(h home, cmd *exec.Cmd) error{
			"a kill":      func(_ home, cmd *exec.Cmd) error { return cmd.Process.Kill() },
			"daemon stop": func(h home, _ *exec.Cmd) error { return h.command(t, "daemon", "stop").Run() },
		}
		for name, end := range stopMethods {
			ends[name] = func(_ home, cmd *exec.Cmd) error { return end(cmd) }
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newDaemonHome(t)
				cmd := h.startDaemon(t)
				r := h.runRepl(t, "", "exec", "main", "-e", "import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); print(os.getpid(), p.pid)")
				var worker, child int
				if _, err := fmt.Sscan(r.stdout, &worker, &child); err != nil {
					t.Fatalf("%v: %v", r, err)
				}
				if err := end(h, cmd); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				waitGone(t, worker)
				waitGone(t, child)
				if r := h.runRepl(t, "", "list"); r.status != 3 {
					t.Errorf("afterwards: %v", r)
				}
				h.startDaemon(t) // the old socket does not block the start
				// After a kill, the transcript of the crashed session may exist. Then the output
				// names it.
				if r := h.runRepl(t, "", "exec", "main", "-e", "1"); r.stdout != "1\n" || r.status != 0 || !strings.HasPrefix(r.stderr, newSessionNotice("main")) {
					t.Errorf("in a new daemon: %v", r)
				}
			})
		}
	})
}

// An mcpClient is an MCP client on standard input and output that may be killed.
type mcpClient struct {
	t           *testing.T
	cmd         *exec.Cmd
	in          io.WriteCloser
	lines       *bufio.Scanner
	errs        bytes.Buffer // read only after it has exited
	last        int
	sandboxLine string // the line about the sandbox in the first reply

	answerQuestion func(question string) string // answers for the user; nil if the client cannot ask
	askedCount     int
}

func (h home) newMCPClient(t *testing.T, args ...string) *mcpClient {
	t.Helper()
	return startMCPClient(t, h.mcpCommand(t, args...), func() {})
}

// startMCPClient starts the server cmd. It calls started before it sends anything.
func startMCPClient(t *testing.T, cmd *exec.Cmd, started func()) *mcpClient {
	t.Helper()
	return startMCPClientWith(t, cmd, map[string]any{}, started)
}

// startMCPClientWith is startMCPClient for a client with these capabilities.
func startMCPClientWith(t *testing.T, cmd *exec.Cmd, capabilities map[string]any, started func()) *mcpClient {
	t.Helper()
	a := &mcpClient{t: t, cmd: cmd}
	a.cmd.Stderr = &a.errs
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.lines = bufio.NewScanner(out)
	a.lines.Buffer(nil, 1<<20)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	started()
	a.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": map[string]any{"name": "e2e", "version": "1"}})
	fmt.Fprintln(a.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (mc *mcpClient) kill() {
	_ = mc.cmd.Process.Kill()
	_ = mc.cmd.Wait()
}

func (mc *mcpClient) request(method string, params any) json.RawMessage {
	mc.t.Helper()
	mc.last++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": mc.last, "method": method, "params": params})
	if err != nil {
		mc.t.Fatal(err)
	}
	if _, err := mc.in.Write(append(line, '\n')); err != nil {
		mc.t.Fatal(err)
	}
	for mc.lines.Scan() {
		var m struct {
			ID     int
			Method string
			Params struct{ Message string }
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(mc.lines.Bytes(), &m); err != nil {
			mc.t.Fatal(err)
		}
		if m.Method == "elicitation/create" && mc.answerQuestion != nil {
			mc.askedCount++
			answer, _ := json.Marshal(mc.answerQuestion(m.Params.Message))
			fmt.Fprintf(mc.in, `{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"answer":%s}}}`+"\n", m.ID, answer)
			continue
		}
		if m.ID == mc.last && m.Method == "" {
			if m.Error != nil {
				mc.t.Fatalf("%s: %s", method, m.Error)
			}
			return m.Result
		}
	}
	mc.t.Fatalf("%s: no answer", method)
	return nil
}

// callRepl calls the tool repl and returns its text.
func (mc *mcpClient) callRepl(input string, more ...any) string {
	mc.t.Helper()
	arguments := map[string]any{"input": input}
	for i := 0; i+1 < len(more); i += 2 {
		arguments[fmt.Sprint(more[i])] = more[i+1]
	}
	var result struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(mc.request("tools/call", map[string]any{"name": "repl", "arguments": arguments}), &result); err != nil {
		mc.t.Fatal(err)
	}
	var text []string
	for _, c := range result.Content {
		text = append(text, c.Text)
	}
	line, rest := splitSandboxLine(strings.Join(text, "\n"))
	mc.sandboxLine = cmp.Or(line, mc.sandboxLine)
	return rest
}

var sandboxLinePattern = regexp.MustCompile(`(?m)^\[sandbox .*\]\n`)

// splitSandboxLine splits the line about the sandbox from the first reply of a session.
func splitSandboxLine(text string) (line, rest string) {
	return sandboxLinePattern.FindString(text), sandboxLinePattern.ReplaceAllString(text, "")
}

func TestMCPDaemon(t *testing.T) {
	t.Parallel()

	t.Run("sessions outlive the server", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := a.callRepl("x = 41; print('hello')"); got != "hello" {
			t.Errorf("got %q", got)
		}
		wait.Until(t, "the variables are listed", func() bool { // a busy machine may take longer than a query
			return strings.Contains(a.callTool("repl_sessions", map[string]any{"session": "bot"}), "\nx     int ")
		})
		first := a.callRepl("import time\nprint('one', flush=True)\nopen('go', 'w').close()\nwhile not __import__('os').path.exists('on'): time.sleep(.01)\nprint('two')", "timeout_ms", 0)
		wait.Until(t, "the turn has started", func() bool { _, err := os.Stat(filepath.Join(h.dir, "go")); return err == nil })
		a.kill()
		if err := os.WriteFile(filepath.Join(h.dir, "on"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := h.newMCPClient(t, "--daemon", "--name", "bot")
		got := b.callRepl("")
		for !strings.Contains(got, "two") {
			got += "\n" + b.callRepl("")
		}
		if !strings.Contains(got, "back in the session") || strings.Count(first+got, "one") != 1 { // in either of them
			t.Errorf("after a restart in the middle of a turn: %q", got)
		}
		if got := b.callRepl("input('who? ')"); !strings.Contains(got, `waiting for input: "who? "`) {
			t.Errorf("got %q", got)
		}
		b.kill()
		c := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := c.callRepl("1 + 1"); !strings.Contains(got, `waiting for input: "who? "`) || !strings.Contains(got, "NOT run") {
			t.Errorf("code after a restart during an input request: got %q, want the request", got)
		}
		if got := c.callRepl("ada"); !strings.Contains(got, "'ada'") {
			t.Errorf("the answer: %q", got)
		}
		other := h.newMCPClient(t, "--daemon", "--name", "another")
		if got := other.callRepl("x"); !strings.Contains(got, "NameError") {
			t.Errorf("another client's main session is not its own: %q", got)
		}
		other.callRepl("import time\nfor i in range(10**6): print(i, flush=True); time.sleep(.01)", "timeout_ms", 0)
		if got := other.callTool("repl_output", map[string]any{"until": "^[0-9]*3$"}); !strings.Contains(got, "3\n") || !strings.Contains(got, "[running ") {
			t.Errorf("until a line matches: %q", got)
		}
		if got := other.callTool("repl_reset", map[string]any{"close": true}); !strings.Contains(got, "is closed") {
			t.Errorf("got %q", got)
		}
		if got := c.callTool("repl_sessions", nil); strings.Contains(got, "another") {
			t.Errorf("a closed session still exists: %q", got)
		}
	})

	// Each client sees only events that it has not seen before, even after a restart.
	t.Run("two clients of one name keep separate read positions", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		conn, err := client.Dial(t.Context(), client.DefaultDialer(h.envValue))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		known := func(reader string) {
			t.Helper()
			wait.Until(t, "the daemon knows the events that "+reader+" was shown", func() bool {
				s, err := conn.GetSession(t.Context(), "bot")
				m, markErr := conn.SaveReadCursor(t.Context(), protocol.ReadCursorParams{Session: "bot", Reader: reader})
				return err == nil && markErr == nil && m.Seq == s.LastSeq
			})
		}
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := a.callRepl("1 + 1"); got != "2" {
			t.Errorf("got %q", got)
		}
		b := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := b.callRepl("2 + 1"); !strings.Contains(got, "existed before") || !strings.HasSuffix(got, "3") {
			t.Errorf("the second: %q", got)
		}
		known("bot#2")
		if got := a.callRepl("print('from', 'a')"); got != "[turn 2 by bot#2: 2 + 1]\n3\n[turn 3]\nfrom a" {
			t.Errorf("the first: %q", got)
		}
		known("bot")
		b.kill()
		b = h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := b.callRepl("print('from', 'b')"); !strings.Contains(got, "back in the session") || !strings.Contains(got, "[turn 3 by bot: print('from', 'a')]\nfrom a\n[turn 4]\nfrom b") {
			t.Errorf("the second, restarted: %q", got)
		}
		a.kill()
		a = h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := a.callRepl(""); !strings.Contains(got, "back in the session") || strings.Contains(got, "from a\n") || !strings.Contains(got, "from b") {
			t.Errorf("the first, restarted: %q", got)
		}
	})

	t.Run("without a daemon tools are listed and calls fail", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		a := h.newMCPClient(t, "--daemon")
		if tools := a.request("tools/list", map[string]any{}); !strings.Contains(string(tools), `"repl_interrupt"`) {
			t.Errorf("got %s", tools)
		}
		if got := a.callRepl("1+1"); !strings.Contains(got, "no daemon answers") {
			t.Errorf("got %q", got)
		}
		h.startDaemon(t)
		if got := a.callRepl("1+1"); !strings.HasPrefix(got, "2") {
			t.Errorf("after the start of a daemon: %q", got)
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
		wait.Until(t, "the daemon is gone", func() bool { return h.runRepl(t, "", "list").status == 3 })
		if got := a.callRepl("1+1"); !strings.Contains(got, "no daemon answers") {
			t.Errorf("after the end of the daemon: %q", got)
		}
		h.startDaemon(t)
		if got := a.callRepl("1+1"); !strings.Contains(got, "no longer exists") && !strings.HasPrefix(got, "2") {
			t.Errorf("with another one: %q", got)
		}
		if got := a.callRepl("1+1"); !strings.HasPrefix(got, "2") {
			t.Errorf("with another one: %q", got)
		}
	})

	t.Run("several servers start one daemon", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				a := h.newMCPClient(t, "--daemon=auto", "--name", "bot"+strconv.Itoa(i))
				if got := a.callRepl("40 + 2"); got != "42" {
					t.Errorf("got %q", got)
				}
			})
		}
		wg.Wait()
		if got := len(h.listSessions(t)); got != 5 {
			t.Errorf("the daemon has %d sessions, want 5: more than one daemon runs", got)
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
	})

	t.Run("a daemon outlives the server that started it", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		a := h.newMCPClient(t, "--daemon=auto", "--name", "bot")
		if got := a.callRepl("x = 40; print(x + 2)"); got != "42" {
			t.Errorf("got %q", got)
		}
		a.kill()
		wantResult(t, h.runRepl(t, "", "exec", "bot", "-e", "x"), result{"40\n", "", 0})
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", "list"), result{"", "repl: no daemon answers at " + h.socket() + " (" + noSocketMessage + "); start one with repl serve\n", 3})
	})

	t.Run("reports why a daemon did not start", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.env = append(h.env, "TURNSTONE_SOCKET="+h.invalidSocket())
		a := h.newMCPClient(t, "--daemon=auto")
		if got := a.callRepl("1"); !strings.Contains(got, "repl serve failed: exit status 1: repl: ") || !strings.Contains(got, invalidSocketReason) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("lists and uses sessions of other clients", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "hers", "-e", "x = 41"), result{"", newSessionNotice("hers"), 0})
		a := h.newMCPClient(t, "--daemon", "--name", "bot", "--sandbox", "full") // like the other session
		a.callRepl("1")
		if got := a.callTool("repl_sessions", nil); !strings.Contains(got, "\nhers ") || !strings.Contains(got, "\nmain ") {
			t.Errorf("the sessions: %q", got)
		}
		if got := a.callTool("repl_output", map[string]any{"session": "hers"}); !strings.Contains(got, "existed before") {
			t.Errorf("the output of another's session: %q", got)
		}
		if got := a.callRepl("x + 1", "session", "hers"); !strings.HasSuffix(got, "42") {
			t.Errorf("in another's session: %q", got)
		}
		if got := a.callTool("repl_interrupt", map[string]any{"session": "nobody"}); !strings.Contains(got, "main and hers") {
			t.Errorf("an unknown session: %q", got)
		}
		if _, made := h.listSessions(t)["nobody"]; made {
			t.Error("the interrupt has created the session")
		}
	})

	t.Run("the user types a secret in another terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := a.callRepl("import getpass; p = getpass.getpass('pw: ')"); !strings.Contains(got, `type the answer there: repl attach bot (`) {
			t.Errorf("the reply does not name the user's command: %q", got)
		}
		got := make(chan string, 1)
		go func() { got <- a.callTool("repl_output", map[string]any{"wait_ms": 30_000}) }() // it waits for the user
		wantResult(t, h.runRepl(t, "hunter2\n", "input", "bot"), result{"\n", "", 0})
		if said := <-got; strings.Contains(said, "hunter2") || strings.Contains(said, "waiting") {
			t.Errorf("after the user has answered: %q", said)
		}
		if got := a.callRepl("len(p)"); !strings.HasSuffix(got, "7") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("directories of the same name have separate sessions", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		for _, parent := range []string{"a", "b"} {
			dir := filepath.Join(h.dir, parent, "app")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			a := h.newMCPClient(t, "--daemon", "--dir", dir)
			if got := a.callRepl("import os; print(os.getcwd())"); !strings.Contains(got, dir) || strings.Contains(got, "existed before") {
				t.Errorf("in %s: %q", dir, got)
			}
		}
	})
}

func (mc *mcpClient) callTool(name string, arguments map[string]any) string {
	mc.t.Helper()
	var result struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(mc.request("tools/call", map[string]any{"name": name, "arguments": arguments}), &result); err != nil {
		mc.t.Fatal(err)
	}
	return result.Content[0].Text
}
