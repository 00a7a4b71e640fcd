package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// writeProbeCode is a program that tries to write to its directory and to another one.
const writeProbeCode = `
import os, sys
def write(path):
    try:
        with open(path, "w") as f: f.write("x")
        return "written"
    except OSError as e: return "refused"
print(write("mine"), write(sys.argv[1] if len(sys.argv) > 1 else os.environ["E2E_OUTSIDE"]), os.environ.get("E2E_API_KEY"))
`

func newSandboxHome(t *testing.T) (h home, outside string) {
	t.Helper()
	sandboxcheck.RequireNamespaces(t)
	h = newDaemonHome(t)
	h.wantsSandbox = true
	outside = t.TempDir()
	socket := h.env[len(h.env)-1]
	h.env = append(h.env[:len(h.env)-1], "E2E_OUTSIDE="+filepath.Join(outside, "file"), "E2E_API_KEY=secret", socket)
	return h, outside
}

// skipWithoutCacheCopies skips a test if the first reply of a session reports missing copies of
// caches.
func skipWithoutCacheCopies(t *testing.T) {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	sandboxcheck.RequireNamespaces(t)
	sandboxcheck.RequireLayers(t, home)
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }

func TestSandbox(t *testing.T) {
	t.Parallel()

	t.Run("confines a program", func(t *testing.T) {
		t.Parallel()
		h, outside := newSandboxHome(t)
		wantResult(t, h.runRepl(t, "", "-e", writeProbeCode), result{"written written secret\n", "", 0})
		if err := os.Remove(filepath.Join(outside, "file")); err != nil {
			t.Fatal(err)
		}
		got := h.runRepl(t, "", "--sandbox", "workspace", "-e", writeProbeCode)
		if got.status != 0 || got.stdout != "written refused None\n" || !strings.HasPrefix(got.stderr, "repl: sandbox workspace: it writes "+h.dir) || !strings.Contains(got.stderr, "E2E_API_KEY") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "--sandbox", "read-only", "-e", writeProbeCode); got.stdout != "refused refused None\n" {
			t.Errorf("got %v", got)
		}
		if fileExists(filepath.Join(outside, "file")) {
			t.Error("a session with a sandbox wrote outside of its workspace")
		}
		if got := h.runRepl(t, "", "--sandbox", "workspace", "--allow-write", outside, "-e", writeProbeCode); got.stdout != "written written None\n" || !fileExists(filepath.Join(outside, "file")) {
			t.Errorf("got %v", got)
		}
		h.wantNothingLeft(t)
	})

	t.Run("refuses impossible flags", func(t *testing.T) {
		t.Parallel()
		h, _ := newSandboxHome(t)
		for _, row := range []struct {
			args []string
			want string
		}{
			{[]string{"--sandbox", "strict"}, "use read-only, workspace or full"},
			{[]string{"--allow-write", h.dir}, "add --sandbox workspace"},
			{[]string{"--sandbox", "workspace", "--allow-write", "there-is-none"}, "neither a directory nor a regular file"},
			{[]string{"--allow-read", h.dir}, "add --sandbox workspace"},
			{[]string{"--sandbox", "workspace", "--allow-read", "there-is-none"}, "neither a directory nor a regular file"},
			{[]string{"--sandbox", "workspace", "--home-access", "all"}, "use documents or tools"},
			{[]string{"--sandbox", "workspace", "--network", "some"}, "use none, list or full"},
			{[]string{"--allow-host", "example.org"}, "add --sandbox workspace"},
			{[]string{"--sandbox", "workspace", "--allow-host", "http://example.org"}, "is not a host"},
			{[]string{"--sandbox", "workspace", "--network", "none", "--allow-host", "example.org"}, "hosts need the network list"},
		} {
			if got := h.runRepl(t, "", append(row.args, "-e", "1")...); got.status != 2 || !strings.Contains(got.stderr, row.want) {
				t.Errorf("%v: got %v, want %q", row.args, got, row.want)
			}
		}
		if got := h.runRepl(t, "", "--sandbox", "workspace", "--allow-read", "/", "-e", "1"); got.status != 1 || !strings.Contains(got.stderr, "cannot show /") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "--sandbox", "workspace", "--allow-write", "/", "-e", "1"); got.status != 1 || !strings.Contains(got.stderr, "cannot make / writable") {
			t.Errorf("got %v", got)
		}
	})

	t.Run("a daemon session gets the requested sandbox", func(t *testing.T) {
		t.Parallel()
		h, outside := newSandboxHome(t)
		h.startDaemon(t)
		h.env = append([]string{"SSH_AUTH_SOCK=/tmp/agent"}, h.env...)
		got := h.runRepl(t, "", "exec", "main", "--sandbox", "workspace", "--dir", h.dir, "-e", writeProbeCode)
		if got.status != 0 || !strings.HasSuffix(got.stdout, "written refused None\n") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "exec", "main", "-e", "import os; os.environ.get('SSH_AUTH_SOCK')"); got.stdout != "" {
			t.Errorf("it knows the agent of ssh: %v", got)
		}
		if has := h.listSessions(t)["main"].Sandbox; has != "workspace" {
			t.Errorf("got the sandbox %q, want workspace", has)
		}
		wantResult(t, h.runRepl(t, "", "exec", "free", "--dir", h.dir, "-e", "1"), result{"1\n", newSessionNotice("free"), 0})
		for _, name := range []string{"main", "free"} {
			got := h.runRepl(t, "", "exec", name, "--sandbox", "read-only", "-e", "open(__import__('os').environ['E2E_OUTSIDE'], 'w')")
			if got.status != 1 || !strings.Contains(got.stderr, "not read-only") {
				t.Errorf("%s: got %v, want a refusal", name, got)
			}
		}
		if fileExists(filepath.Join(outside, "file")) {
			t.Error("code ran in a session with weaker limits than requested")
		}
	})

	t.Run("the command reports the enforced limits", func(t *testing.T) {
		t.Parallel()
		h, _ := newSandboxHome(t)
		if got := h.runRepl(t, "", "sandbox"); got.status != 0 || !strings.HasPrefix(got.stdout, "sandbox workspace: it writes "+h.dir) {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "sandbox", "--sandbox", "full"); got.status != 0 || !strings.Contains(got.stdout, "all rights") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "doctor"); !strings.Contains(got.stdout, "yes  sandbox: ") {
			t.Errorf("doctor does not report that a sandbox is available:\n%s", got.stdout)
		}
	})

	// A variable may name a directory that cannot be created.
	t.Run("starts wherever variables put the tool directories", func(t *testing.T) {
		t.Parallel()
		h, _ := newSandboxHome(t)
		file := filepath.Join(h.tmp, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		elsewhere := filepath.Join(filepath.Dir(replbin.Path()), "cache-"+filepath.Base(h.tmp)) // next to a program, so only readable
		for what, dir := range map[string]string{
			"missing in a read-only directory": elsewhere, "missing in the workspace": filepath.Join(h.dir, "a/b"),
			"missing among temporary files": filepath.Join(h.tmp, "a/b"), "missing on the machine": "/turnstone-nothing/a",
			"a file": file, "below a file": filepath.Join(file, "a"), "a device": "/dev/null",
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				h := h
				h.env = append(slices.Clone(h.env), "XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
				if got := h.runRepl(t, "", "sandbox"); got.status != 0 {
					t.Errorf("got %v", got)
				}
			})
		}
	})

	// The user shows more of the home directory to sessions: at the start, while a session runs, and always.
	t.Run("the user shows more of the home directory", func(t *testing.T) {
		t.Parallel()
		h, _ := newSandboxHome(t)
		in, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		h.env = slices.Insert(h.env, len(h.env)-1, "HOME="+in)
		for _, name := range []string{".data/x", ".later", "document", ".ssh/id", ".always"} {
			path := filepath.Join(in, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		reads := "import os\nfor n in ('.data/x', '.later', 'document', '.always'): print(os.path.exists(os.environ['HOME'] + '/' + n))"
		shows := func(want string, args ...string) {
			t.Helper()
			if got := h.runRepl(t, "", append(args, "-e", reads)...); strings.Join(strings.Fields(got.stdout), " ") != want {
				t.Errorf("%v: got %v, want %s", args, got, want)
			}
		}
		shows("False False True False", "--sandbox", "workspace")
		shows("True True True False", "--sandbox", "workspace", "--allow-read", filepath.Join(in, ".data"), "--allow-read", filepath.Join(in, ".later"))
		shows("False False False False", "--sandbox", "workspace", "--home-access", "tools")
		if got := h.runRepl(t, "", "--sandbox", "workspace", "--allow-read", filepath.Join(in, ".ssh"), "-e", "1"); got.status != 1 || !strings.Contains(got.stderr, "is hidden from sessions") {
			t.Errorf("keys: got %v", got)
		}

		h.writeSandboxSettings(t, "home-access = \"tools\"\nallow-read = [\""+filepath.Join(in, "document")+"\"]\n")
		shows("False False True False", "--sandbox", "workspace")
		p := h.startTerminal(t, "grant", "--always", "--dir", h.dir, "--read", filepath.Join(in, ".always"))
		p.waitText("saved in")
		p.waitExit(0)
		shows("False False True True", "--sandbox", "workspace")
		p = h.startTerminal(t, "grant", "--always", "--read", filepath.Join(in, ".ssh/id"))
		p.waitText("is hidden from sessions")
		p.waitExit(1)

		h.startDaemon(t)
		got := h.runRepl(t, "", "exec", "main", "--sandbox", "workspace", "--dir", h.dir, "-e", "open('"+filepath.Join(in, ".data/x")+"')")
		if want := "the sandbox does not show " + filepath.Join(in, ".data") + "; the user can allow it with: repl grant main --read " + filepath.Join(in, ".data"); !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("got %v, want %q", got, want)
		}
		h.startTerminal(t, "grant", "main", "--read", filepath.Join(in, ".data")).waitExit(0)
		if err := os.Symlink(filepath.Join(in, ".later"), filepath.Join(h.dir, "results")); err != nil {
			t.Fatal(err)
		}
		p = h.startTerminal(t, "grant", "main", "--read", filepath.Join(h.dir, "results"))
		p.waitText("leads to " + text.QuoteName(filepath.Join(in, ".later")))
		p.typeKeys("y\r")
		p.waitExit(0)
		shows("True True True True", "exec", "main")

		account := h.runRepl(t, "", "sandbox", "main")
		for _, want := range []string{"granted: read " + filepath.Join(in, ".data") + "\n", "granted: read " + filepath.Join(in, ".later") + "\n", "visible in " + in + " (named or allowed): .always, .data, .later, document\n", "withheld variables: "} {
			if !strings.Contains(account.stdout, want) {
				t.Errorf("got %v, want %q in it", account, want)
			}
		}
		if text := h.runRepl(t, "", "sandbox", "--json", "main").stdout; !strings.Contains(text, `"reason":"named or allowed"`) && !strings.Contains(text, `"reason": "named or allowed"`) {
			t.Errorf("in JSON: got %s", text)
		}
	})

	// A session may write a directory that programs outside run or read only after the user has
	// named its real path twice.
	t.Run("the user confirms a directory of programs by its path", func(t *testing.T) {
		t.Parallel()
		h, _ := newSandboxHome(t)
		in, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		h.env = slices.Insert(h.env, len(h.env)-1, "HOME="+in)
		bin, profile := filepath.Join(in, ".local/bin"), filepath.Join(in, ".profile")
		if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(profile, nil, 0o600), os.Symlink(bin, filepath.Join(h.dir, "results"))); err != nil {
			t.Fatal(err)
		}
		puts := "for path in ('" + bin + "/x', '" + profile + "'):\n    try: open(path, 'w').write('x')\n    except OSError: pass" // a directory of tools is a copy
		writes := func(want string, args ...string) {
			t.Helper()
			if err := errors.Join(os.RemoveAll(filepath.Join(bin, "x")), os.Truncate(profile, 0)); err != nil {
				t.Fatal(err)
			}
			got := h.runRepl(t, "", append(args, "-e", puts)...)
			text, err := os.ReadFile(profile)
			if err != nil {
				t.Fatal(err)
			}
			if now := fmt.Sprint(fileExists(filepath.Join(bin, "x")), string(text) != ""); got.status != 0 || now != want {
				t.Errorf("%v: got %v, and wrote %v, want %s", args, got, now, want)
			}
		}
		types := func(answer, seen string, status int, args ...string) {
			t.Helper()
			p := h.startTerminal(t, append([]string{"grant"}, args...)...)
			if seen != "" {
				p.waitText(seen)
			}
			if answer != "" {
				p.waitText("to allow it: ")
				p.typeKeys(answer + "\r")
			}
			p.waitExit(status)
		}
		confined := []string{"--sandbox", "workspace", "--ask-permission", "no"}

		for _, path := range []string{bin, "results"} {
			got := h.runRepl(t, "", append(confined, "--allow-write", path, "-e", "1")...)
			if got.status == 0 || path == bin && !strings.Contains(got.stderr, "to allow it anyway, name it again: --confirm-write "+shellword.Quote(bin)) || !strings.Contains(got.stderr, bin) {
				t.Errorf("--allow-write %s: got %v", path, got)
			}
		}
		writes("true false", append(confined, "--allow-write", bin, "--confirm-write", bin)...)
		h.writeSandboxSettings(t, "allow-write = [\""+profile+"\"]\nconfirm-write = [\""+profile+"\"]\n")
		writes("false true", confined...)
		h.writeSandboxSettings(t, "allow-write = [\""+profile+"\"]\n")
		if got := h.runRepl(t, "", append(confined, "-e", "1")...); got.status == 0 || !strings.Contains(got.stderr, "--confirm-write "+shellword.Quote(profile)) {
			t.Errorf("in the file: got %v", got)
		}
		h.writeSandboxSettings(t, "[workspace.\""+h.dir+"\"]\nallow-write = [\""+bin+"\"]\n")
		if got := h.runRepl(t, "", append(confined, "-e", puts)...); !strings.Contains(got.stdout+got.stderr, "an allowed path is left out: "+text.QuoteName(bin)) || fileExists(filepath.Join(bin, "x")) {
			t.Errorf("saved without the second confirmation: got %v", got)
		}

		h.writeSandboxSettings(t, "")
		types("y", " leads to "+text.QuoteName(bin)+", which is where programs keep", 1, "--always", "--write", "results")
		types("results", "", 1, "--always", "--write", "results")
		writes("false false", confined...)
		types(bin, "", 0, "--always", "--write", "results")
		writes("true false", confined...)

		h.writeSandboxSettings(t, "")
		h.startDaemon(t)
		running := []string{"exec", "main"}
		writes("false false", append(running, "--sandbox", "workspace", "--ask-permission", "no", "--dir", h.dir)...)
		types("yes", profile+" is where programs keep", 1, "main", "--write", profile)
		types(profile, "", 0, "main", "--write", profile)
		writes("false true", running...)
		types("", "", 0, "main", "--write", bin, "--confirm-write", bin)
		writes("true true", running...)
	})
}

func TestSandboxReport(t *testing.T) {
	t.Run("the first reply to an agent describes it", func(t *testing.T) {
		skipWithoutCacheCopies(t)
		t.Parallel()
		h, _ := newSandboxHome(t)
		for _, args := range [][]string{nil, {"--sandbox", "workspace"}, {"--daemon=auto"}} {
			a := h.newMCPClient(t, args...)
			got := a.callRepl(writeProbeCode)
			if !strings.HasPrefix(a.sandboxLine, "[sandbox workspace: it writes "+h.dir) || got != "written refused None" {
				t.Errorf("%v: the first reply is %q, %q", args, a.sandboxLine, got)
			}
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
	})

	t.Run("defaults of the user config hold for agents as well", func(t *testing.T) {
		skipWithoutCacheCopies(t)
		t.Parallel()
		h, outside := newSandboxHome(t)
		h.writeSandboxSettings(t, "sandbox = \"read-only\"\nallow-write = [\""+outside+"\"]\nallow-host = [\"a.org\"]\n")
		for _, row := range []struct {
			args        []string
			holds, text string
		}{
			{nil, "[sandbox read-only: it writes " + outside + " and its own /tmp, reaches a.org,", "refused written None"},
			{[]string{"--allow-host", "b.org"}, "reaches a.org, b.org,", "refused written None"},
			{[]string{"--network", "none"}, "/tmp, no network,", "refused written None"},
			{[]string{"--sandbox", "workspace"}, "[sandbox workspace: it writes " + h.dir + ", " + outside, "written written None"},
			{[]string{"--sandbox", "full"}, "", "written written secret"},
		} {
			a := h.newMCPClient(t, row.args...)
			// The denial may be reported before or after the output.
			if got := a.callRepl(writeProbeCode); !slices.Contains(strings.Split(got, "\n"), row.text) || !strings.Contains(a.sandboxLine, row.holds) || row.holds == "" && a.sandboxLine != "" {
				t.Errorf("%v: got %q, %q; want %q in the first and %q", row.args, a.sandboxLine, got, row.holds, row.text)
			}
		}
	})
}

func TestSandboxOfAgent(t *testing.T) {
	// An unconfined session of the user is no escape for an agent.
	t.Run("holds in sessions of others", func(t *testing.T) {
		skipWithoutCacheCopies(t)
		h, outside := newSandboxHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "hers", "--dir", h.dir, "-e", "1"), result{"1\n", newSessionNotice("hers"), 0})
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		if got := a.callRepl(writeProbeCode, "session", "hers"); !strings.Contains(got, "open with the sandbox full, not workspace") || fileExists(filepath.Join(outside, "file")) {
			t.Errorf("got %q, want a refusal", got)
		}
	})

	// An agent runs without a sandbox only if the user chooses that.
	t.Run("only the user can leave it out", func(t *testing.T) {
		h, _ := newSandboxHome(t)
		a := h.newMCPClient(t, "--sandbox", "full")
		if got := a.callRepl(writeProbeCode); a.sandboxLine != "" || got != "written written secret" {
			t.Errorf("the first reply is %q, %q", a.sandboxLine, got)
		}
	})

	t.Run("no code runs where it is not available", func(t *testing.T) {
		h, outside := newSandboxHome(t)
		refused := []string{"sandbox: user namespace", "sysctl user.max_user_namespaces", "the sandbox full"}
		out, err := withoutNamespaces(h.command(t, "install", "cursor", "--dry-run")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		a := startMCPClient(t, withoutNamespaces(h.command(t, "mcp", "--lang", "python")), func() {})
		for what, got := range map[string]string{"repl install": string(out), "the first call": a.callRepl(writeProbeCode)} {
			for _, want := range refused {
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want %q in it", what, got, want)
				}
			}
		}
		if fileExists(filepath.Join(h.dir, "mine")) || fileExists(filepath.Join(outside, "file")) {
			t.Error("code ran without the sandbox")
		}
	})
}

func TestSandboxConfig(t *testing.T) {
	t.Run("saved grants hold in later sessions", func(t *testing.T) {
		h, outside := newSandboxHome(t)
		if got := h.runRepl(t, "y\n", "grant", "--always", "--write", outside); got.status != 2 || !strings.Contains(got.stderr, "needs a user at a terminal") {
			t.Errorf("a program allowed it: %v", got)
		}
		if got := h.runRepl(t, "", "--sandbox", "workspace", "-e", writeProbeCode); got.stdout != "written refused None\n" {
			t.Errorf("got %v", got)
		}
		p := h.startTerminal(t, "grant", "--always", "--write", outside)
		p.waitText("saved in")
		p.waitExit(0)
		if got := h.runRepl(t, "", "--sandbox", "workspace", "-e", writeProbeCode); got.stdout != "written written None\n" {
			t.Errorf("got %v", got)
		}
		h.startDaemon(t)
		if got := h.runRepl(t, "", "exec", "main", "--sandbox", "workspace", "--dir", h.dir, "-e", writeProbeCode); !strings.HasSuffix(got.stdout, "written written None\n") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "sandbox", "main"); got.status != 0 || !strings.Contains(got.stdout, "sandbox workspace\ndirectory: "+text.QuoteName(h.dir)+"\ngranted: write "+text.QuoteName(outside)+"\n") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "exec", "main", "--sandbox", "workspace", "-e", "1"); got.status != 0 {
			t.Errorf("a granted session no longer fits its request: %v", got)
		}
	})

	t.Run("a malformed file is named with its line", func(t *testing.T) {
		h, _ := newSandboxHome(t)
		path := h.writeSandboxSettings(t, "")
		for text, want := range map[string]string{
			"sandbox = \"workspace\"\nwriteable = []\n": path + ", line 2: unknown setting",
			"sandbox = \"workspace\n":                   path + ", line 1: ",
			"sandbox = \"strict\"\n":                    "sandbox in " + path + ": unknown sandbox",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := h.runRepl(t, "", "-e", "print(1)"); got.status == 0 || !strings.Contains(got.stderr, want) || got.stdout != "" {
				t.Errorf("%q: got %v, want %q", text, got, want)
			}
		}
		if err := os.WriteFile(path, []byte("sandbox = \"workspace\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.runRepl(t, "", "-e", writeProbeCode); got.stdout != "written refused None\n" {
			t.Errorf("the default level is not used: %v", got)
		}
		if got := h.runRepl(t, "", "--sandbox", "full", "-e", writeProbeCode); got.stdout != "written written secret\n" {
			t.Errorf("a flag does not override the default: %v", got)
		}
	})
}

// writeSandboxSettings writes the user's sandbox.toml and returns its path.
func (h home) writeSandboxSettings(t *testing.T, text string) string {
	t.Helper()
	var path string
	for _, entry := range h.env {
		if config, ok := strings.CutPrefix(entry, "XDG_CONFIG_HOME="); ok {
			path = filepath.Join(config, "turnstone", "sandbox.toml")
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withoutNamespaces runs a command where no namespace, and so no sandbox, can be created. There an
// agent's session is refused, and repl install has announced that.
func withoutNamespaces(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = append([]string{"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}
