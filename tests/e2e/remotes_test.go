//go:build unix

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// newRemoteCommand returns a command that connects to the daemon of another home. It stands for ssh
// to a noisy account: for the client, the started program runs on another machine.
func newRemoteCommand(t *testing.T, there home, first ...string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "remote end")
	text := "#!/bin/sh\nPATH=" + filepath.Dir(replbin.Path()) + ":$PATH\nTURNSTONE_SOCKET=" + there.socket() + "\nXDG_STATE_HOME='" + there.envValue("XDG_STATE_HOME") + "'\nexport PATH TURNSTONE_SOCKET XDG_STATE_HOME\n" +
		"echo welcome to far; printf 'a prompt> '\necho a banner >&2\n" + strings.Join(first, "\n") + "\nexec \"$@\"\n"
	if err := testexec.WriteExecutable(script, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return "'" + script + "'"
}

// writeRemotesFile writes the file of remotes of a home.
func (h home) writeRemotesFile(t *testing.T, text string) {
	t.Helper()
	for _, kv := range h.env {
		if dir, ok := strings.CutPrefix(kv, "XDG_CONFIG_HOME="); ok {
			file := filepath.Join(dir, "turnstone", "remotes.toml")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()

	t.Run("every command uses the remote", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		h.writeRemotesFile(t, "[remotes.gpu]\nvia = \""+newRemoteCommand(t, there)+"\"\n")
		at := func(args ...string) []string { return append(args, "--remote", "gpu") }
		wantResult(t, h.runRepl(t, "", at("exec", "main", "-e", "x = 41; print('there')")...), result{"there\n", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "--via", newRemoteCommand(t, there), "-e", "x + 1"), result{"42\n", "", 0})
		near := h
		near.env = append(near.env, "TURNSTONE_REMOTE=gpu")
		for args, part := range map[string]string{
			"list": "main ", "list --json": `"name": "main"`, "events main": "there\n", "export main": "x = 41; print('there')", "wait main": "",
			"interrupt main": "", "clients": "", "daemon status": there.socket(), "sandbox main": "full", "remote list": "gpu", "remote check gpu": "round trip: ",
		} {
			if r := near.runRepl(t, "", strings.Fields(args)...); r.status != 0 || !strings.Contains(r.stdout, part) || strings.Contains(r.stdout+r.stderr, "a prompt>") {
				t.Errorf("%s: %v", args, r)
			}
		}
		if r := h.runRepl(t, "", at("exec", "main", "-e", "y = input('who? ')", "--wait", "30s")...); r.status != 5 {
			t.Errorf("a question: %v", r)
		}
		wantResult(t, h.runRepl(t, "", at("input", "main", "-e", "ada")...), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", at("exec", "main", "-e", "y")...), result{"'ada'\n", "", 0})
		wantResult(t, h.runRepl(t, "", at("reset", "main")...), result{"", "", 0})
		if r := h.runRepl(t, "", at("exec", "main", "-e", "y")...); r.status != 1 || !strings.Contains(r.stdout, "NameError") {
			t.Errorf("after a reset: %v", r)
		}
		wantResult(t, h.runRepl(t, "", at("close", "main")...), result{"", "", 0})
		if r := there.runRepl(t, "", "clients"); !strings.Contains(r.stderr, "no other client is connected") {
			t.Errorf("connections are left: %v", r)
		}
		if r := h.runRepl(t, "", "list"); r.status != 3 {
			t.Errorf("a daemon is here: %v", r)
		}
		if r := near.runRepl(t, "", "list", "--remote", "here"); r.status != 3 {
			t.Errorf("the remote here is not this machine: %v", r)
		}
	})

	t.Run("a user attaches to a session at the remote", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		wantResult(t, there.runRepl(t, "", "exec", "main", "-e", "x = 41"), result{"", newSessionNotice("main"), 0})
		p := h.startTerminal(t, "attach", "main", "--via", newRemoteCommand(t, there, "printf 'password: ' > /dev/tty", "read -r x < /dev/tty", `[ "$x" = sesame ] || exit 255`))
		p.waitText("password: ")
		p.typeKeys("sesame\r")
		p.waitText(">>> ")
		p.typeKeys("x + 1\r")
		p.waitText("42\r\n")
		p.waitText(">>> ")
		wait.Until(t, "the turn is over", func() bool {
			s := there.listSessions(t)["main"]
			return s.State == session.StateIdle && s.WriteLockHolder == ""
		})
		p.typeKeys("\x04")
		p.waitText("[detached: main goes on; repl close main --via '")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("an agent can use a remote", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		a := newAgent(t, h, "--via", newRemoteCommand(t, there), "--sandbox", "full", "--name", "bot")
		if got := a.callRepl("6 * 7"); !strings.Contains(got, "42") {
			t.Errorf("got %q", got)
		}
		if s := there.listSessions(t); len(s) != 1 || s["bot"].Name == "" {
			t.Errorf("got the sessions %v", s)
		}
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("the web UI shows the remote", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		cmd := h.command(t, "view", "--no-open", "--by-address", "--via", newRemoteCommand(t, there))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		link := readUntil(t, out, "\n")
		if r, err := http.Get(strings.TrimSpace(link)); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%q: got %v, %v", link, r, err)
		} else {
			_ = r.Body.Close()
		}
		_ = stopProgram(cmd)
		_ = cmd.Wait()
	})

	t.Run("exec starts a daemon at the remote, list does not", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		via := newRemoteCommand(t, there)
		if r := h.runRepl(t, "", "list", "--via", via); r.status != 3 || !strings.Contains(r.stderr, "no daemon answers at "+there.socket()) {
			t.Errorf("got %v", r)
		}
		if r := h.runRepl(t, "", "remote", "check", "--via", via); r.status != 0 || !strings.Contains(r.stdout, "no daemon answers at "+there.socket()) {
			t.Errorf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "--via", via, "-e", "1 + 1"), result{"2\n", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "daemon", "stop", "--via", via), result{"", "", 0})
		if r := h.runRepl(t, "", "list", "--via", via); r.status != 3 {
			t.Errorf("it did not stop: %v", r)
		}
	})

	t.Run("reports a terminal in between", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("script"); err != nil {
			t.Skip("script is not installed")
		}
		h := newDaemonHome(t)
		h.startDaemon(t)
		wrapper := filepath.Join(t.TempDir(), "tty")
		if err := testexec.WriteExecutable(wrapper, []byte("#!/bin/sh\nexec script -qec \"$*\" /dev/null\n")); err != nil {
			t.Fatal(err)
		}
		r := h.runRepl(t, "", "list", "--via", wrapper+" env PATH="+filepath.Dir(replbin.Path()))
		if r.status != 3 || !strings.Contains(r.stderr, "must not allocate") || !strings.Contains(r.stderr, "ssh -T") {
			t.Errorf("got %v", r)
		}
	})

	t.Run("a job is started once and forgotten on demand", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		counter := filepath.Join(t.TempDir(), "jobs")
		h.writeRemotesFile(t, "[remotes.hpc]\nvia = \""+newRemoteCommand(t, there)+" env JOB={job}\"\ndiagnose = \"echo state of {job}\"\n"+
			"start = \"sh -c 'echo >> "+counter+"; echo 17\\\\;cluster'\"\n")
		for range 2 {
			if r := h.runRepl(t, "", "list", "--remote", "hpc"); r.status != 0 {
				t.Fatalf("got %v", r)
			}
		}
		if r := h.runRepl(t, "", "remote", "list"); !strings.Contains(r.stdout, "17") {
			t.Errorf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "remote", "forget", "hpc"), result{"", "", 0})
		if r := h.runRepl(t, "", "list", "--remote", "hpc"); r.status != 0 {
			t.Errorf("got %v", r)
		}
		if text, err := os.ReadFile(counter); err != nil || string(text) != "\n\n" {
			t.Errorf("the job was started so often: %q, %v", text, err)
		}
		h.writeRemotesFile(t, "[remotes.hpc]\nvia = \"sh -c 'exit 1' {job}\"\nstart = \"false\"\ndiagnose = \"echo state of {job}\"\n")
		if r := h.runRepl(t, "", "list", "--remote", "hpc"); r.status != 3 || !strings.Contains(r.stderr, "status 1; echo says: state of 17") {
			t.Errorf("got %v", r)
		}
	})

	t.Run("refuses impossible flags in one line", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.writeRemotesFile(t, "[remotes.gpu]\nvia = \"ssh gpu1\"\n")
		for args, part := range map[string]string{
			"list --remote gpo":            `unknown remote "gpo"`,
			"list --remote gpu --via env":  "either --via or --remote",
			"mcp --remote gpu --http :0":   "--http",
			"exec x --via env --dir sub":   "use an absolute path at the remote",
			"remote check":                 "needs the name of a remote",
			"remote frobnicate":            "repl remote list",
			"bridge --start=maybe":         "auto or never",
			"bridge --silence-timeout 1ms": "--silence-timeout",
			"list --via nosuch":            `program "nosuch" not found`,
			"list --via env --socket /a$b": "cannot be sent to the remote shell",
			"list --via env|cat":           "no shell reads this",
		} {
			if r := h.runRepl(t, "", strings.Fields(args)...); r.status == 0 || !strings.Contains(r.stderr, part) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%s: got %v, want %q", args, r, part)
			}
		}
	})

	// Here the remote end holds both pipes open itself, as after a power failure of the client. It
	// sees no end of input, and its output is accepted.
	t.Run("a remote end without a client ends, an idle one does not", func(t *testing.T) {
		t.Parallel()
		there, dir := newDaemonHome(t), t.TempDir()
		there.startDaemon(t)
		script := `cd '` + dir + `' && mkfifo in$$ out$$ || exit
"$@" 0<>in$$ 1<>out$$ &
far=$!
cat out$$ &
exec 3<&0
tee said$$ <&3 >in$$ &
echo $! $far > ids.$$ && mv ids.$$ ids$$
wait $far`
		const alive = 10 * time.Second
		link := client.New(&remote.CommandDialer{
			Name: "gpu", Prefix: []string{"sh", "-c", script, "sh"}, Program: replbin.Path(), Socket: there.socket(),
			GreetingTimeout: testTimeout, KeepAlive: alive, Env: there.env,
		}, nil)
		defer link.Close()
		files := func(pattern string) []string {
			t.Helper()
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		list := func() {
			t.Helper()
			ctx, stop := context.WithTimeout(t.Context(), testTimeout)
			defer stop()
			if _, err := link.ListSessions(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list()
		var relay, far int
		wait.Until(t, "the remote end is known", func() bool {
			all := files("ids[0-9]*")
			if len(all) != 1 {
				return false
			}
			text, err := os.ReadFile(all[0])
			if err != nil {
				t.Fatal(err)
			}
			n, err := fmt.Sscan(string(text), &relay, &far)
			return n == 2 && err == nil
		})
		wait.Until(t, "the idle connection outlived the silence timeout", func() bool {
			said, err := os.ReadFile(files("said[0-9]*")[0])
			return err == nil && strings.Count(string(said), protocol.MethodPing) > 15 // ten probes in that time
		})
		if !testexec.IsAlive(far) {
			t.Error("the remote end of an idle connection has exited")
		}
		if err := syscall.Kill(relay, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitGone(t, far)
		wait.Until(t, "the daemon there has no client", func() bool {
			return strings.Contains(there.runRepl(t, "", "clients").stderr, "no other client is connected")
		})
		list()
		if n := len(files("ids[0-9]*")); n != 2 {
			t.Errorf("the remote was dialled %d times, want 2", n)
		}
	})

	t.Run("the remote end gets a silence timeout", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startDaemon(t)
		file := filepath.Join(t.TempDir(), "words")
		if r := h.runRepl(t, "", "list", "--via", newRemoteCommand(t, there, `echo "$@" > '`+file+"'")); r.status != 0 {
			t.Fatalf("got %v", r)
		}
		words, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(words), " --silence-timeout 5m0s") {
			t.Errorf("the words were %q, %v", words, err)
		}
	})
}
