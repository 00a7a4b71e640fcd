//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// A doctorReport is the output of doctor --json, as a script would parse it.
type doctorReport struct {
	Languages []struct {
		Language, Executable, Missing string
		Probes                        []doctorProbe
	}
	MCP     []doctorProbe
	Clients []struct {
		Client, Found string
		Files         []struct {
			File    string
			Entries []struct {
				Name, Detail string
				OK           bool
				Notes        []string
			}
		}
	}
	System []systemFeature
}

type systemFeature struct {
	Name, Detail string
	Available    bool
}

type doctorProbe struct {
	Name, Detail string
	OK           bool
}

// newHomeWithoutClients returns a home in which no client is configured.
func newHomeWithoutClients(t *testing.T) home {
	t.Helper()
	h := newHome(t)
	h.env = append(h.env, "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "CODEX_HOME=", "CLAUDE_CONFIG_DIR=")
	return h
}

// homeDir returns where the clients of h keep their files.
func (h home) homeDir() string {
	for i := len(h.env) - 1; i >= 0; i-- {
		if dir, ok := strings.CutPrefix(h.env[i], "HOME="); ok {
			return dir
		}
	}
	return ""
}

func (h home) runDoctor(t *testing.T, args ...string) (doctorReport, result) {
	t.Helper()
	got := h.runRepl(t, "", append([]string{"doctor", "--json"}, args...)...)
	var r doctorReport
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %v", err, got)
	}
	return r, got
}

func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("reports which runtime is used and whether it works", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t) // otherwise doctor reports a fault
		got := newHomeWithoutClients(t).runRepl(t, "", "doctor")
		if got.status != 0 || got.stderr != "" {
			t.Fatalf("got %v", got)
		}
		for _, text := range []string{
			"because: ", "searched:", "ok      the runtime starts", "ok      an interrupt reaches a loop", "ok      all processes exit",
			"ok      protocol 2025-06-18: 5 tools listed", "ok      protocol 2026-07-28: 5 tools listed", `print("2") first in`,
			"\nClients\n", "Sandbox and limits on this system",
		} {
			if !strings.Contains(got.stdout, text) {
				t.Errorf("doctor does not say %q:\n%s", text, got.stdout)
			}
		}
		if strings.Contains(got.stdout, "FAILED") {
			t.Errorf("doctor reports a fault:\n%s", got.stdout)
		}
	})

	t.Run("fails without a runtime", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		h.env = append(h.env, "PATH="+t.TempDir(), "PYENV_ROOT="+t.TempDir(), "R_HOME=")
		r, got := h.runDoctor(t, "--lang", "python")
		if got.status != 1 || len(r.Languages) != 1 || !strings.Contains(r.Languages[0].Missing, "no Python") || len(r.MCP) != 0 {
			t.Errorf("got %v, want status 1 and the missing program", got)
		}
	})

	// A failing loader prints names with a 2 in them, and names the missing library.
	t.Run("a runtime that cannot start fails every check", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		path := t.TempDir()
		script := "#!/bin/sh\necho 'error while loading shared libraries: libpython3.12.so' >&2\nexit 127\n"
		if err := testexec.WriteExecutable(filepath.Join(path, "python3"), []byte(script)); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "PATH="+path+":/usr/bin:/bin")
		r, got := h.runDoctor(t, "--lang", "python")
		if got.status != 1 || len(r.Languages) != 1 || len(r.MCP) != 2 {
			t.Fatalf("got %v", got)
		}
		if start := r.Languages[0].Probes[0]; start.OK || !strings.Contains(start.Detail, "exit status 127") || !strings.Contains(start.Detail, "libpython3.12.so") {
			t.Errorf("the start: %+v", start)
		}
		for _, p := range r.MCP {
			if p.OK {
				t.Errorf("a server that starts no worker is reported to work: %+v", p)
			}
		}
	})

	// A user needs only the languages that they ask for.
	t.Run("a language may be missing unless the user asks for it", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("R"); err != nil {
			t.Skip("R is not installed")
		}
		h := newHomeWithoutClients(t)
		path := t.TempDir() // all programs except Python, which R does not need
		for _, dir := range []string{"/bin", "/usr/bin", "/usr/local/bin"} {
			programs, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range programs {
				if err := os.Symlink(filepath.Join(dir, p.Name()), filepath.Join(path, p.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
			}
		}
		pythons, err := filepath.Glob(filepath.Join(path, "py*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pythons {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		h.env = append(h.env, "PATH="+path, "PYENV_ROOT="+t.TempDir())
		r, got := h.runDoctor(t)
		if got.status != 0 || len(r.Languages) != 2 || r.Languages[0].Missing == "" || r.Languages[1].Missing != "" || len(r.MCP) != 2 {
			t.Errorf("got %v, want R alone and status 0", got)
		}
		if _, got := h.runDoctor(t, "--lang", "python"); got.status != 1 {
			t.Errorf("Python was asked for: got %v", got)
		}
	})

	t.Run("finds a client whose command does not exist", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t) // otherwise doctor reports a fault
		h := newHomeWithoutClients(t)
		if got := h.runRepl(t, "", "install", "cursor", "gemini"); got.status != 0 {
			t.Fatalf("got %v", got)
		}
		entry := func(r doctorReport, client string) (detail string, ok bool, notes []string) {
			for _, c := range r.Clients {
				if c.Client == client && len(c.Files) == 1 && len(c.Files[0].Entries) == 1 {
					e := c.Files[0].Entries[0]
					return e.Detail, e.OK, e.Notes
				}
			}
			t.Fatalf("%s has no entry: %+v", client, r.Clients)
			return
		}
		r, got := h.runDoctor(t, "--lang", "python")
		if detail, ok, _ := entry(r, "cursor"); got.status != 0 || !ok || detail != "this program" {
			t.Errorf("got %q, %v", detail, got)
		}
		file := filepath.Join(h.homeDir(), ".cursor", "mcp.json")
		broken := `{"mcpServers": {"turnstone": {"command": "/nowhere/repl", "args": ["mcp"], "timeout": 30000}}}`
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		r, got = h.runDoctor(t, "--lang", "python")
		detail, ok, notes := entry(r, "cursor")
		if got.status != 1 || ok || !strings.Contains(detail, "does not exist") || len(notes) != 1 || !strings.Contains(notes[0], "timeout of 30 s") {
			t.Errorf("got %q, %v, status %d", detail, notes, got.status)
		}
	})

	// A project may be a stranger's, so looking at it must not run any of it.
	t.Run("runs nothing that a project names", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		evil := filepath.Join(h.dir, "repl")
		if err := testexec.WriteExecutable(evil, []byte("#!/bin/sh\ntouch "+filepath.Join(h.dir, "ran")+"\n")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.dir, ".mcp.json"), []byte(`{"mcpServers": {"turnstone": {"command": "./repl", "args": ["mcp"]}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		got := h.runRepl(t, "", "doctor", "--lang", "python")
		if !strings.Contains(got.stdout, "not run here") {
			t.Errorf("got %v", got)
		}
		if _, err := os.Stat(filepath.Join(h.dir, "ran")); err == nil {
			t.Error("the project's program ran")
		}
	})

	t.Run("ends at Ctrl-C", func(t *testing.T) {
		t.Parallel()
		newHomeWithoutClients(t).wantDoctorEndsAtCtrlC(t, "full")
	})
}

// wantDoctorEndsAtCtrlC interrupts doctor while it tests a runtime, and while it tests the server
// with that runtime, at a sandbox level.
func (h home) wantDoctorEndsAtCtrlC(t *testing.T, level string) {
	t.Helper()
	started, works := filepath.Join(h.dir, "started"), filepath.Join(h.dir, "works")
	fake := filepath.Join(h.dir, "python")
	script := `#!/bin/sh
if [ -e ` + works + ` ]; then rm ` + works + `; exec python3 "$@"; fi
touch ` + started + `
exec sleep 60 # never ready
`
	if err := testexec.WriteExecutable(fake, []byte(script)); err != nil {
		t.Fatal(err)
	}
	for _, firstWorks := range []bool{false, true} {
		if firstWorks {
			if err := errors.Join(os.Remove(started), os.WriteFile(works, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := h.command(t, "doctor", "--sandbox", level, "--python", fake)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "something is tried", func() bool {
			_, err := os.Stat(started)
			return err == nil
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := exitStatusOf(t, cmd); got != 128+int(syscall.SIGINT) {
			t.Errorf("got status %d, want 130", got)
		}
		h.wantNothingLeft(t)
	}
}
