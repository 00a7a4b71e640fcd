package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// startIsolatedDaemon runs a daemon whose temporary files only it and its sessions see, like a
// daemon on another machine.
func (h home) startIsolatedDaemon(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", h.tmp).CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here, which needs util-linux and user namespaces: %v, %s", err, out)
	}
	cmd := h.commandWithin(t.Context(), "serve")
	cmd.Args = append([]string{"unshare", "-rm", "sh", "-c", `mount -t tmpfs none "$TMPDIR" && exec "$0" "$@"`}, cmd.Args...)
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = path
	h.waitDaemon(t, cmd)
}

// writeShadowFile writes a different file to a local path that equals the path of a remote file.
func writeShadowFile(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s is on this machine, too", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("decoy"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRemoteFiles(t *testing.T) {
	t.Parallel()

	t.Run("files of a session come over its connection", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startIsolatedDaemon(t)
		via := newRemoteCommand(t, there)
		far := func(args ...string) result {
			t.Helper()
			return h.runRepl(t, "", append(args, "--via", via)...)
		}
		if r := far("exec", "main", "-e", "for i in range(100_000): print('line', i)"); r.status != 0 {
			t.Fatal(r)
		}
		output := there.listSessions(t)["main"].OutputPath
		writeShadowFile(t, output)
		dir := filepath.Dir(output)
		code := "import os; d = " + pythonLiteral(dir) + "; j = os.path.join\n" +
			"os.symlink('/etc/passwd', j(d, 'link')); os.mkfifo(j(d, 'pipe')); os.mkdir(j(d, 'inner'))\n" +
			"open(j(d, 'inner', 'file'), 'w').close(); open(j(d, 'empty'), 'w').close()\n" +
			"open(j(os.path.dirname(d), 'outside'), 'w').close(); f = open(j(d, 'large'), 'wb'); f.truncate(100 << 20); f.seek(-3, 2); f.write(b'end'); f.close()"
		if r := far("exec", "main", "-e", code); r.status != 0 || r.stdout != "" {
			t.Fatal(r)
		}
		if r := far("files", "main"); r.status != 0 || !strings.Contains(r.stdout, "output.txt ") || !strings.Contains(r.stdout, "large ") || strings.Contains(r.stdout, "link") || strings.Contains(r.stdout, "pipe") || strings.Contains(r.stdout, "lock") {
			t.Errorf("the list: %v", r)
		}
		for _, name := range []string{"output.txt", output} {
			local := filepath.Join(h.dir, "copy")
			wantResult(t, far("files", "main", name, "-o", local), result{"", "", 0})
			if text, err := os.ReadFile(local); err != nil || !bytes.HasPrefix(text, []byte("line 0\n")) || !bytes.Contains(text, []byte("line 99999\n")) {
				t.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
		}
		wantResult(t, far("files", "main", "empty"), result{"", "", 0})
		local := filepath.Join(h.dir, "large")
		wantResult(t, far("files", "main", "large", "-o", local), result{"", "", 0})
		if text, err := os.ReadFile(local); err != nil || len(text) != 100<<20 || !bytes.HasSuffix(text, []byte("\x00end")) {
			t.Errorf("100 MiB: got %d, %v", len(text), err)
		}
		for name, why := range map[string]string{
			"link": "is a link", "pipe": "is a pipe", "../outside": "only files of the session directory", "/etc/passwd": "only files",
			filepath.Join(dir, "inner", "file"): "only files",
		} {
			if r := far("files", "main", name); r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, why) {
				t.Errorf("%s: %v", name, r)
			}
		}
		if r := far("files", "nobody"); r.status != 1 || !strings.Contains(r.stderr, `no session "nobody"`) {
			t.Errorf("got %v", r)
		}
		if r := far("export", "main", "--output", filepath.Join(h.dir, "main.py")); r.status != 0 {
			t.Errorf("the export: %v", r)
		}
	})

	t.Run("an agent learns only of files that it can read", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		there.startIsolatedDaemon(t)
		a := newAgent(t, h, "--via", newRemoteCommand(t, there), "--sandbox", "full", "--name", "bot")
		a.callRepl("1")
		output := there.listSessions(t)["bot"].OutputPath
		writeShadowFile(t, output)
		if got := a.callRepl("for i in range(20_000): print('line', i)"); !strings.Contains(got, " of repl_output …") || strings.Contains(got, filepath.Dir(output)) {
			t.Errorf("much output: %q", got)
		}
		got := a.callRepl(wideImageCode)
		found := regexp.MustCompile(`3000 x 4, shown smaller; original in (\S+)\]`).FindStringSubmatch(got)
		if found == nil {
			t.Fatalf("an image: %q", got)
		}
		data, err := os.ReadFile(found[1])
		if err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) || !strings.HasPrefix(found[1], h.envValue("XDG_STATE_HOME")) {
			t.Errorf("%s has %d bytes, %v", found[1], len(data), err)
		}
		if i, err := os.Stat(filepath.Dir(found[1])); err != nil || i.Mode().Perm() != 0o700 {
			t.Errorf("its directory: %v, %v", i, err)
		}
		if left, err := os.ReadDir(filepath.Dir(output)); err != nil || len(left) != 1 {
			t.Errorf("the local directory with the same path has %v, %v", left, err)
		}
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})

	t.Run("crashed sessions are recovered from the remote", func(t *testing.T) {
		t.Parallel()
		there, h := newDaemonHome(t), newDaemonHome(t)
		daemon := there.startDaemon(t)
		via := newRemoteCommand(t, there, "TMPDIR="+there.tmp, "export TMPDIR")
		far := func(args ...string) result {
			t.Helper()
			return h.runRepl(t, "", append(args, "--via", via)...)
		}
		far("exec", "work", "-e", "print(6 * 7)")
		there.waitSaved(t, "print(6 * 7)")
		agent := func(code string) string {
			t.Helper()
			a := newAgent(t, h, "--via", via, "--sandbox", "full", "--name", "bot")
			defer func() { _ = a.cmd.Wait() }()
			defer a.in.Close()
			return a.callRepl(code)
		}
		agent("secret = 'of the agent'")
		there.waitSaved(t, "of the agent")
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = daemon.Wait()
		if r := h.runRepl(t, "", "recover", "work"); r.status != 1 {
			t.Errorf("it is missing here: %v", r)
		}
		if r := far("recover"); r.status != 0 || !strings.Contains(r.stdout, "work ") || !strings.Contains(r.stdout, "bot ") || strings.Count(r.stdout, "\n") != 3 {
			t.Errorf("the list: %v", r)
		}
		script := filepath.Join(h.dir, "out.py")
		wantResult(t, far("recover", "work", "-o", script), result{"", "", 0})
		wantResult(t, h.runRepl(t, "", script), result{"42\n", "", 0})
		if r := far("recover", "work", "--format", "text"); r.status != 0 || !strings.Contains(r.stdout, "42\n") {
			t.Errorf("the transcript: %v", r)
		}
		const how = " writes its inputs, and with --format text also its output"
		told := func(who, name, text string) {
			t.Helper()
			if !strings.Contains(text, "repl recover "+name+" --via ") || !strings.Contains(text, how) || strings.Contains(text, there.tmp) {
				t.Errorf("%s gets %q", who, text)
			}
		}
		told("a new session", "work", far("exec", "work", "-e", "1").stderr)
		told("an agent", "bot", agent("1"))
		p := h.startTerminal(t, "attach", "work", "--via", via)
		told("an attached user", "work", strings.Join(strings.Fields(p.waitText(">>> ")), " "))
		p.typeKeys("\x04")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if r := far("recover", "other"); r.status != 1 || !strings.Contains(r.stderr, `no session "other" crashed`) {
			t.Errorf("got %v", r)
		}
		if r := far("recover", "--session-dir", there.tmp); r.status != 2 {
			t.Errorf("got %v", r)
		}
		wantResult(t, far("daemon", "stop"), result{"", "", 0})
	})
}

func pythonLiteral(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// wideImageCode is code that shows an image that is too wide for a model.
const wideImageCode = `import zlib, struct
def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
class Wide:
    def _repr_png_(self): return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 3000, 4, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress((b'\0' + bytes(3000)) * 4)) + chunk(b'IEND', b'')
    def __repr__(self): return 'a wide picture'
Wide()`
