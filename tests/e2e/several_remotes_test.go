//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// startCall calls a tool. answer is its reply.
func (a *agent) startCall(tool string, arguments map[string]any) {
	a.t.Helper()
	a.lastID++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.lastID, "method": "tools/call", "params": map[string]any{
		"name": tool, "arguments": arguments,
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}})
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(a.in, "%s\n", line); err != nil {
		a.t.Fatal(err)
	}
}

// callTool returns the reply of a tool about a session; "" names none.
func (a *agent) callTool(tool, session string, more ...string) string {
	a.t.Helper()
	arguments := map[string]any{}
	if session != "" {
		arguments["session"] = session
	}
	for i := 0; i < len(more); i += 2 {
		arguments[more[i]] = more[i+1]
	}
	a.startCall(tool, arguments)
	return a.readAnswer()
}

// A testRemote is a remote with a daemon, like another machine.
type testRemote struct {
	home
	via       string
	dialsFile string // the file that records the process of each dial
}

func newTestRemote(t *testing.T) testRemote {
	t.Helper()
	p := testRemote{home: newDaemonHome(t), dialsFile: filepath.Join(t.TempDir(), "dials")}
	p.startDaemon(t)
	p.via = newRemoteCommand(t, p.home, "echo $$ >> '"+p.dialsFile+"'")
	return p
}

// dialPIDs returns the processes that have connected there.
func (r testRemote) dialPIDs(t *testing.T) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(r.dialsFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestRemotes(t *testing.T) {
	t.Parallel()

	t.Run("an agent has sessions here and at several remotes", func(t *testing.T) {
		t.Parallel()
		gpu, hpc, lab, h := newTestRemote(t), newTestRemote(t), newTestRemote(t), newDaemonHome(t)
		job := filepath.Join(t.TempDir(), "job")
		h.writeRemotesFile(t, fmt.Sprintf("[remotes.gpu]\nvia = %q\n[remotes.hpc]\nvia = %q\n[remotes.lab]\nvia = %q\n", gpu.via, hpc.via, lab.via)+
			"[remotes.gone]\nvia = \"sh -c 'echo no route >&2; exit 255' sh\"\n"+
			fmt.Sprintf("[remotes.slurm]\nvia = \"env JOB={job}\"\nstart = %q\n", "touch '"+job+"'"))
		a := newAgent(t, h, "--remotes", "gpu,hpc,gone,slurm", "--sandbox", "full", "--name", "bot")
		if got := a.callTool("repl", "", "input", "where = 'here'"); !strings.HasPrefix(got, "[done") {
			t.Errorf("here: %q", got)
		}
		if n := len(gpu.dialPIDs(t)); n > 0 {
			t.Errorf("a remote that no call has named was dialled %d times", n)
		}
		for _, place := range []string{"gpu", "hpc"} {
			if got := a.callTool("repl", place+"/main", "input", "where = '"+place+"'"); got != `[new session "`+place+"/main\"]\n[done, no output]" {
				t.Errorf("%s: %q", place, got)
			}
		}
		for name, want := range map[string]string{"": "'here'", "main": "'here'", "here/main": "'here'", "gpu/main": "'gpu'", "hpc/main": "'hpc'"} {
			if got := a.callTool("repl", name, "input", "where"); got != want {
				t.Errorf("%q is at %s", name, got)
			}
		}
		for place, at := range map[string]home{"here": h, "gpu": gpu.home, "hpc": hpc.home} {
			if s := at.listSessions(t); len(s) != 1 || s["bot"].Name == "" {
				t.Errorf("%s has the sessions %v", place, s)
			}
		}
		lines := strings.Split(a.callTool("repl_sessions", ""), "\n")
		if len(lines) != 6 || !strings.HasPrefix(lines[1], "main ") || !strings.HasPrefix(lines[2], "gpu/main ") || !strings.HasPrefix(lines[3], "hpc/main ") ||
			!strings.HasPrefix(lines[4], "[gone ") || lines[5] != `[slurm needs a job, which is not started; a session there, such as "slurm/main", starts it]` {
			t.Errorf("got the sessions\n%s", strings.Join(lines, "\n"))
		}
		if _, err := os.Stat(job); err == nil {
			t.Error("a list has started a job")
		}
		if got := a.callTool("repl_sessions", "hpc/main"); !strings.Contains(got, "where  str") {
			t.Errorf("the variables are %q", got)
		}
		if got := a.callTool("repl", "lab/main", "input", "1"); !strings.Contains(got, `"lab" is not among the remotes that the user allows (repl mcp --remotes): gpu, hpc, gone and slurm`) {
			t.Errorf("got %q", got)
		}
		if got := a.callTool("repl", "gone/main", "input", "1"); !strings.HasPrefix(got, "gone ") || !strings.Contains(got, "cannot be reached") {
			t.Errorf("got %q", got)
		}
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if n := len(lab.dialPIDs(t)); n > 0 {
			t.Errorf("a remote that is not allowed was dialled %d times", n)
		}
		for place, at := range map[string]testRemote{"gpu": gpu, "hpc": hpc} {
			wait.Until(t, "no connection is left at "+place, func() bool {
				return strings.Contains(at.runRepl(t, "", "clients").stderr, "no other client is connected")
			})
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
	})

	t.Run("input and interrupts and a close reach the named session", func(t *testing.T) {
		t.Parallel()
		gpu, h := newTestRemote(t), newDaemonHome(t)
		h.startDaemon(t)
		h.writeRemotesFile(t, fmt.Sprintf("[remotes.gpu]\nvia = %q\n", gpu.via))
		a := newAgent(t, h, "--daemon", "--remotes", "all", "--sandbox", "full", "--name", "bot")
		a.callTool("repl", "", "input", "x = 'here'")
		if got := a.callTool("repl", "gpu/main", "input", "x = input('who? ')"); !strings.Contains(got, `waiting for input: "who? "`) {
			t.Errorf("got %q", got)
		}
		if got := a.callTool("repl", "", "input", "x"); got != "'here'" {
			t.Errorf("got %q", got)
		}
		a.callTool("repl", "gpu/main", "input", "ada")
		if got := a.callTool("repl", "gpu/main", "input", "x"); got != "'ada'" {
			t.Errorf("got %q", got)
		}
		if got := a.callTool("repl", "gpu/main", "input", "import getpass; getpass.getpass('token: ')"); !strings.Contains(got, "repl attach bot --remote gpu") {
			t.Errorf("got %q", got)
		}
		a.callTool("repl_interrupt", "gpu/main")
		wait.Until(t, "it is interrupted", func() bool { return gpu.listSessions(t)["bot"].State == session.StateIdle })
		if got := a.callTool("repl_output", "gpu/main", "grep", "who"); !strings.Contains(got, "who? ") {
			t.Errorf("got %q", got)
		}
		if got := a.callTool("repl", "gpu/new", "input", "7"); !regexp.MustCompile(`^\[new session "gpu/python-[a-z0-9]{8}"[^\n]*\]\n7$`).MatchString(got) {
			t.Errorf("got %q", got)
		}
		a.startCall("repl_reset", map[string]any{"session": "gpu/main", "close": true})
		if got := a.readAnswer(); got != `[session "gpu/main" is closed, and its variables are lost]` {
			t.Errorf("got %q", got)
		}
		if s := gpu.listSessions(t); len(s) != 1 || s["bot"].Name != "" {
			t.Errorf("gpu has %v", s)
		}
		if s := h.listSessions(t); s["bot"].State != session.StateIdle {
			t.Errorf("here is %v", s)
		}
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("each connection breaks and recovers separately", func(t *testing.T) {
		t.Parallel()
		gpu, hpc, h := newTestRemote(t), newTestRemote(t), newDaemonHome(t)
		h.startDaemon(t)
		h.writeRemotesFile(t, fmt.Sprintf("[remotes.gpu]\nvia = %q\n[remotes.hpc]\nvia = %q\n", gpu.via, hpc.via))
		a := newAgent(t, h, "--daemon", "--remotes", "gpu, hpc", "--sandbox", "full", "--name", "bot")
		for _, place := range []string{"gpu", "hpc"} {
			a.callTool("repl", place+"/main", "input", "import os, time")
		}
		flag := filepath.Join(t.TempDir(), "go")
		a.startCall("repl", map[string]any{"session": "gpu/main", "timeout_ms": 600_000, "input": "while not os.path.exists('" + flag + "'):\n    time.sleep(.01)\n\nprint('after')"})
		wait.Until(t, "the code runs there", func() bool { return gpu.listSessions(t)["bot"].State == session.StateRunning })
		if err := syscall.Kill(gpu.dialPIDs(t)[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the remote is dialled again", func() bool { return len(gpu.dialPIDs(t)) > 1 })
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := a.readAnswer(); !regexp.MustCompile(`^after\n\[the connection to gpu was down for \d+(\.\d)? s\]$`).MatchString(got) {
			t.Errorf("got %q", got)
		}
		if got := a.callTool("repl", "hpc/main", "input", "6 * 7"); got != "42" {
			t.Errorf("got %q", got)
		}
		if pids := hpc.dialPIDs(t); len(pids) != 1 {
			t.Errorf("the other remote was dialled by %v", pids)
		}
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("refuses impossible flags at the start", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		if r := h.runRepl(t, "", "mcp", "--remotes", "all"); r.status != 2 || !strings.Contains(r.stderr, "no remotes in ") {
			t.Errorf("got %v", r)
		}
		h.writeRemotesFile(t, "[remotes.gpu]\nvia = \"ssh gpu1\"\n")
		for args, part := range map[string]string{
			"mcp --remotes gpo":                    "did you mean gpu?",
			"mcp --remotes gpu,,hpc":               "separated by commas, or all",
			"mcp --remotes gpu --http :0":          "--http",
			"mcp --remotes here --remote gpu":      "--remotes here",
			"mcp --remotes gpu --env-file /x/y.zz": "--env-file",
		} {
			if r := h.runRepl(t, "", strings.Fields(args)...); r.status != 2 || !strings.Contains(r.stderr, part) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%s: got %v, want %q", args, r, part)
			}
		}
	})
}
