//go:build linux

package mcpclient

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// newRudeSet returns a ServerSet of servers with these behaviors, each named after its behavior.
func newRudeSet(t *testing.T, o Options, behaviors ...string) *ServerSet {
	t.Helper()
	self := testexec.OwnPath()
	for _, behavior := range behaviors {
		o.Servers = append(o.Servers, ServerConfig{Name: behavior, Group: behavior, Command: self, Env: []string{rudeServerVariable + "=" + behavior, "PATH=" + os.Getenv("PATH")}})
	}
	s := NewServerSet(o)
	t.Cleanup(s.Close)
	return s
}

// newSessionWith opens a Python session that can call the tools of a ServerSet.
func newSessionWith(t *testing.T, s *ServerSet) *sessionkit.TestSession {
	t.Helper()
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: t.TempDir(), Functions: s.Functions()}, python.Spec(python.Options{}))
	r.WaitUntilReady(t)
	return r
}

// wantOutput runs a turn and expects texts in its output.
func wantOutput(t *testing.T, r *sessionkit.TestSession, code string, wants ...string) sessionkit.TurnResult {
	t.Helper()
	res := r.RunCode(t, code)
	for _, want := range wants {
		if !strings.Contains(res.OutputText(), want) {
			t.Errorf("%s\ndoes not say %q: %.2000s", code, want, res.OutputText())
		}
	}
	return res
}

func TestTools(t *testing.T) {
	t.Parallel()

	t.Run("are functions that return values", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "fine"))
		wantOutput(t, r, "import turnstone; dir(turnstone)", "['CallError', 'ToolError', 'search', 'tools']")
		for _, e := range wantOutput(t, r, "from turnstone.tools import fine", "").Events {
			if c, ok := e.Body.(timeline.Call); ok {
				t.Errorf("opening the group is recorded as %s", c)
			}
		}
		wantOutput(t, r, "fine.echo('a')", `{"zeta":"a"}`)
		wantOutput(t, r, "fine.echo(zeta='a', alpha=2)", `{"alpha":2,"zeta":"a"}`)
		wantOutput(t, r, "fine.big('')", "{'n': 9007199254740993, 'x': 1.5, 'none': None}")
		wantOutput(t, r, "fine.import_('a'), fine['import']('a')", "('ran import', 'ran import')")
		wantOutput(t, r, "fine.from_a('a'), fine.from_a_('a'), fine['from-a']('a')", "('ran from_a', 'ran from-a', 'ran from-a')")
		wantOutput(t, r, "fine.echo(zeta=1, alpha='x', beta=2)", "TypeError: fine.echo: wrong arguments: alpha is a string, not integer; unknown beta; zeta is an integer, not string")
		wantOutput(t, r, "fine.echo('a', alpha=None)", "alpha is null, not integer")
		wantOutput(t, r, "try: fine.fail('a')\nexcept turnstone.ToolError as e: print('caught', e)", "caught no such bird")
		wantOutput(t, r, "fine.nothing", "AttributeError: fine has no function nothing: it has ask, big")
		wantOutput(t, r, "from turnstone.tools import coarse", "cannot import name 'coarse'")
		wantOutput(t, r, "fine.picture('a').kind, len(fine.picture('a'))", "('image/png', 8)")
		wantOutput(t, r, "fine.sample('a')", "asked")
		wantOutput(t, r, "help(fine.echo)", "echo(zeta: str, *, alpha: int = ...)", "does echo", "Tool echo of fine.")
		wantOutput(t, r, "import asyncio; asyncio.run(fine.echo.async_('x'))", `{"zeta":"x"}`)
		wantOutput(t, r, "for s in turnstone.search('does progress', limit=2): print(s)", "fine.progress(zeta: string, alpha?: integer): does progress", "more")
		res := wantOutput(t, r, "fine.progress('a')", "laid")
		seen := false
		for _, e := range res.Events {
			p, ok := e.Body.(timeline.Progress)
			seen = seen || ok && p == timeline.Progress{Progress: 3, Total: 7, Message: "third egg"}
		}
		if !seen {
			t.Errorf("the turn has no progress of the call: %v", res.Events)
		}
	})

	t.Run("malformed answers are errors of their call", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "junk"))
		wantOutput(t, r, "import turnstone; from turnstone.tools import junk", "")
		for range 2 { // the connection survives
			wantOutput(t, r, "junk.huge('')", "ToolError: the server's answer is longer than 16 MiB")
			wantOutput(t, r, "junk.invalid('')", "ToolError: the server's answer is not valid JSON")
			wantOutput(t, r, "junk.unknown_id('')", "ok")
			wantOutput(t, r, "junk.flood('')", "after the flood")
			wantOutput(t, r, "junk.echo('a')", `{"zeta":"a"}`)
		}
	})

	t.Run("a server that dies is an error and is restarted", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "mortal"))
		wantOutput(t, r, "from turnstone.tools import mortal", "")
		for range 3 {
			wantOutput(t, r, "mortal.die('')", "ConnectionError: the connection to the server mortal ended during die, which may have run:", "it ended with status 7: out of cheese")
			wantOutput(t, r, "mortal.echo('again')", `{"zeta":"again"}`)
		}
	})

	t.Run("a server that does not start says why", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "dies", "deaf", "late", "fine")
		s.timeouts = timeouts{start: time.Minute, discover: 100 * time.Millisecond, write: writeTimeout}
		r := newSessionWith(t, s)
		wantOutput(t, r, "from turnstone.tools import dies", "ConnectionError: the server dies did not start:", "it ended with status 3: no licence found")
		wantOutput(t, r, "from turnstone.tools import dies", "no licence found (next attempt in")
		wantOutput(t, r, "from turnstone.tools import deaf; deaf.echo('a')", `{"zeta":"a"}`)
		wantOutput(t, r, "from turnstone.tools import late; late.echo('a')", `{"zeta":"a"}`)
		wantOutput(t, r, "import turnstone; turnstone.search('echo')", "deaf.echo(", "fine.echo(", "the server dies did not start")
	})

	t.Run("a server that never answers is ended", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "silent")
		s.timeouts = timeouts{start: time.Second, discover: 100 * time.Millisecond, write: writeTimeout}
		r := newSessionWith(t, s)
		wantOutput(t, r, "from turnstone.tools import silent", "the server silent did not start: no answer within 1s")
		wantOutput(t, r, "import turnstone; turnstone.search('echo')", "the server silent did not start")
	})

	t.Run("an interrupt ends a call", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "slow")
		r := newSessionWith(t, s)
		wantOutput(t, r, "from turnstone.tools import slow", "")
		turn := submitCode(t, r, "slow.hang('')")
		for open := 0; open == 0; { // waits until the call is open
			s.servers[0].mu.Lock()
			open = len(s.servers[0].openCalls)
			s.servers[0].mu.Unlock()
		}
		r.InterruptTurn(t, turn)
		r.WaitTurnEnd(t, turn)
		wantOutput(t, r, "slow.echo('a')", `{"zeta":"a"}`)
	})

	t.Run("child processes end with their server", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "parent")
		r := newSessionWith(t, s)
		res := wantOutput(t, r, "from turnstone.tools import parent; print('pid', parent.child(''))", "pid ")
		var pid int
		if _, err := fmt.Sscanf(res.OutputText(), "pid %d", &pid); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			t.Fatal("the child does not run: ", err)
		}
		s.Close()
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Errorf("the server's child %d still runs", pid)
		}
	})

	t.Run("are replaced when they change", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*", "moody.wipe"}}, "moody"))
		wantOutput(t, r, "from turnstone.tools import moody; hasattr(moody, 'added')", "False")
		wantOutput(t, r, "moody.wipe(zeta='')\nwhile not hasattr(moody, 'added'): pass\nmoody.added('')", "ran added")
	})
}

func submitCode(t *testing.T, r *sessionkit.TestSession, code string) uint64 {
	t.Helper()
	turn, err := r.Submit(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// waitPermission waits until the session asks for a permission.
func waitPermission(t *testing.T, r *sessionkit.TestSession, turn uint64) session.PermissionRequest {
	t.Helper()
	reply, err := r.Wait(t.Context(), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply.InputRequest == nil || reply.InputRequest.Permission == nil {
		t.Fatalf("no permission is requested: %s", reply.Text())
	}
	return *reply.InputRequest.Permission
}

func TestPermission(t *testing.T) {
	t.Parallel()

	t.Run("the user is asked once", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Deny: []string{"shy.big"}}, "shy"))
		wantOutput(t, r, "from turnstone.tools import shy; hasattr(shy, 'big')", "False")
		turn := submitCode(t, r, "[shy.echo(str(i)) for i in range(50)][-1]")
		p := waitPermission(t, r, turn)
		if want := `code wants to call shy.echo(zeta="0"). Allow it?`; p.Question() != want {
			t.Errorf("got %q, want %q", p.Question(), want)
		}
		if p.Wider == nil || p.Wider.Call != "shy.*" {
			t.Fatalf("got the wider grant %v", p.Wider)
		}
		if _, err := r.Answer(t.Context(), 0, session.Input{Data: []byte("y\n")}); err == nil {
			t.Error("an input answered the permission request")
		}
		if err := r.Allow(t.Context(), *p.Wider); err != nil {
			t.Fatal(err)
		}
		r.WaitTurnEnd(t, turn)
		wantOutput(t, r, "shy.fail('')", "no such bird")
		wantOutput(t, r, "from threading import Thread\nts = [Thread(target=shy.echo, args=('',)) for _ in range(20)]\n[t.start() for t in ts]; [t.join() for t in ts]; 'all'", "all")
		turn = submitCode(t, r, "shy.wipe(zeta='')")
		p = waitPermission(t, r, turn)
		if !p.Destructive || p.Wider != nil || !strings.Contains(p.Question(), "marks as destructive") {
			t.Errorf("the permission request for a destructive tool is %+v", p)
		}
		if err := r.AnswerPermission(t.Context(), p.ID, false); err != nil {
			t.Fatal(err)
		}
		res := r.WaitTurnEnd(t, turn)
		if !strings.Contains(res.OutputText(), "PermissionError: shy.wipe is not allowed") || !strings.Contains(res.OutputText(), "with --allow-tool shy.wipe when") {
			t.Errorf("got %s", res.OutputText())
		}
		wantOutput(t, r, "shy.wipe(zeta='')", "PermissionError") // without a second request
	})

	t.Run("threads share a question that an interrupt ends", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{}, "shy"))
		wantOutput(t, r, "from turnstone.tools import shy\nfrom threading import Thread", "")
		turn := submitCode(t, r, "shy.echo('')")
		waitPermission(t, r, turn)
		r.InterruptTurn(t, turn)
		r.WaitTurnEnd(t, turn)
		turn = submitCode(t, r, "ts = [Thread(target=shy.echo, args=('',)) for _ in range(30)]\n[t.start() for t in ts]; [t.join() for t in ts]; 'all'")
		p := waitPermission(t, r, turn)
		if err := r.AnswerPermission(t.Context(), p.ID, true); err != nil {
			t.Fatal(err)
		}
		res := r.WaitTurnEnd(t, turn)
		if !strings.Contains(res.OutputText(), "all") || strings.Contains(res.OutputText(), "Error") {
			t.Errorf("got %s", res.OutputText())
		}
	})
}

func TestLoadServers(t *testing.T) {
	t.Parallel()
	home, project := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := map[string]string{"TOKEN": "t0", "HOME": home, "PATH": os.Getenv("PATH"), "SECRET": "never"}
	p := install.ConfigDirs{Home: home, Config: filepath.Join(home, ".config"), XDG: filepath.Join(home, ".config"), Project: project, Getenv: func(n string) string { return set[n] }}
	file := filepath.Join(home, "servers.json")
	write(file, `{"mcpServers": { // a comment
		"git-hub": {"type": "http", "url": "https://example.org/${TOKEN}", "headers": {"X": "Bearer ${TOKEN}"}},
		"git_hub": {"command": "sh", "args": ["${NOPE:-dflt}", "${userHome}"], "env": {"A": "${TOKEN}"}, "cwd": "sub"},
		"class": {"url": "http://localhost:1/", "type": "sse"},
		"unset": {"command": "sh", "args": ["${NOPE}"]}, "prompt": {"command": "sh", "env": {"K": "${input:key}"}},
		"off": {"command": "sh", "disabled": true}, "gone": {"command": "/no/such"}, "self": {"command": "repl", "args": ["mcp"]}}}`)
	list, left, err := LoadServers(file, p)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v", list) + strings.Join(left, "\n")
	for _, want := range []string{
		"https://example.org/t0", "X:Bearer t0", "Group:git_hub ", "Group:git_hub_", "dflt " + home, "A=t0", filepath.Join(project, "sub"), "Group:class_ ", "SSE:true",
		"unset is skipped: the variable NOPE is not set", "prompt is skipped: ${input:key} is not supported", "off is skipped: disabled", "gone is skipped: command not found: /no/such",
		"self is skipped",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in %s", want, text)
		}
	}
	if strings.Contains(text, "never") {
		t.Errorf("a variable that no server needs is passed on: %s", text)
	}

	write(filepath.Join(home, ".claude.json"), `{"mcpServers": {"a": {"command": "sh"}}, "projects": {"`+project+`": {"mcpServers": {"b": {"command": "sh"}}, "enabledMcpjsonServers": ["c"]}}}`)
	write(filepath.Join(project, ".mcp.json"), `{"mcpServers": {"c": {"command": "sh"}, "d": {"command": "sh"}}}`)
	list, left, err = LoadServers("claude", p)
	if err != nil || len(list) != 3 || list[2].Name != "c" || len(left) != 1 || !strings.Contains(left[0], "server d") || !strings.Contains(left[0], "not approved") {
		t.Errorf("claude: %v, %v, %v", list, left, err)
	}
	claude := func(want string) {
		t.Helper()
		list, left, err := LoadServers("claude", p)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("claude: got %s, want %s (%v, %v)", got, want, left, err)
		}
	}
	write(filepath.Join(project, ".mcp.json"), `{"mcpServers": {"c": {"command": "sh"}, "d": {"command": "sh"}, "e": {"command": "sh"}, "f": {"command": "sh"}}}`)
	write(filepath.Join(project, ".claude", "settings.json"), `{"enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["d"], "disabledMcpjsonServers": ["f"]}`)
	write(filepath.Join(project, ".claude", "settings.local.json"), `{"enabledMcpjsonServers": ["e", "f"]}`)
	claude("a b c") // a project cannot approve its own servers
	write(filepath.Join(home, ".claude", "settings.json"), `{"enabledMcpjsonServers": ["d", "f"]}`)
	claude("a b c d") // f is refused
	write(filepath.Join(home, ".claude.json"), `{"mcpServers": {"a": {"command": "sh"}}, "projects": {"`+project+`": {"hasTrustDialogAccepted": true, "disabledMcpjsonServers": ["d"]}}}`)
	claude("a e")
	write(filepath.Join(project, ".claude", "settings.local.json"), `{"enableAllProjectMcpServers": true}`)
	claude("a c e")
	write(filepath.Join(home, ".codex", "config.toml"), "[mcp_servers.a]\ncommand = \"sh\"\nargs = [\"${TOKEN}\"]\nenv_vars = [\"SECRET\"]\n[mcp_servers.b]\nurl = \"http://x/\"\nbearer_token_env_var = \"TOKEN\"\n[mcp_servers.c]\ncommand = \"sh\"\nenabled = false\n")
	list, left, err = LoadServers("codex", p)
	if err != nil || len(list) != 2 || list[0].Args[0] != "${TOKEN}" || !strings.Contains(fmt.Sprint(list[0].Env), "SECRET=never") || list[1].Headers["Authorization"] != "Bearer t0" || len(left) != 1 {
		t.Errorf("codex: %+v, %v, %v", list, left, err)
	}
	if _, _, err = LoadServers("cursor", p); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("cursor without a file: %v", err)
	}
	set[depthVariable] = "1"
	if list, left, err = LoadServers(file, p); err != nil || len(list) != 0 || len(left) != 1 {
		t.Errorf("inside a server: %v, %v, %v", list, left, err)
	}
}

// The user reads the arguments before allowing the call.
func TestFormatArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]map[string]any{
		`a=1, b="x y"`:                  {"a": 1, "b": "x y"},
		`text="\u202ex\u2800\u001b[8m"`: {"text": "\u202ex\u2800\x1b[8m"},
		`"a). Allow it to call b("=1`:   {"a). Allow it to call b(": 1},
		`list=["\ufe0f"]`:               {"list": []string{"\ufe0f"}},
	} {
		if got := formatArguments(args); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
