package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

func TestDoctorSandbox(t *testing.T) {
	t.Parallel()

	// A directory may be a stranger's, so its programs run in a sandbox in which they cannot write.
	t.Run("tries the runtime of a directory without trusting it", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		weaker := "ok      the runtime starts"
		if _, _, missing := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1); missing != 0 { // 1 queries the version
			weaker = "there is no sandbox here to try it in"
		}
		full := []string{`sandbox = "full"`, `network = "full"`}
		for _, c := range []struct {
			what     string
			from     string // below the directory
			settings []string
			confine  func(*exec.Cmd) *exec.Cmd
			want     string
		}{
			{what: "is tried in a sandbox", want: "ok      the runtime starts"},
			{what: "is tried in a sandbox from a directory below", from: "a/b", want: "ok      the runtime starts"},
			{what: "is tried in a sandbox even for a user without sandboxes", settings: full, want: "ok      the runtime starts"},
			{what: "writes nothing where sessions may write", settings: []string{"allow-write = [%q]"}, want: "ok      protocol 2025-06-18"},
			{what: "writes nothing where a user always allows writing", settings: []string{"[workspace.%[1]q]", "allow-write = [%[1]q]"}, want: "ok      protocol 2025-06-18"},
			{what: "is tried in the fallback that a user accepts", settings: []string{`sandbox-fallback = "landlock"`}, confine: withoutNamespaces, want: weaker},
			{what: "is not tried without one", settings: full, confine: withoutNamespaces, want: "no sandbox is available to test it in (launch: start: sandbox: user namespace"},
			{what: "is not tried without one from a directory below", from: "a/b", settings: full, confine: withoutNamespaces, want: "no sandbox is available to test it in (launch: start: sandbox: user namespace"},
			{what: "of a client is not tried without one", from: "../elsewhere", settings: full, confine: withoutNamespaces, want: "ok      protocol 2025-06-18"},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				h := newHomeWithoutClients(t)
				project := filepath.Join(h.dir, "project")
				if err := os.MkdirAll(filepath.Join(project, ".venv/bin"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := testexec.WriteExecutable(filepath.Join(project, ".venv/bin/python"), []byte("#!/bin/sh\n(>"+filepath.Join(project, "ran")+") 2>/dev/null\nexec python3 \"$@\"\n")); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(project, ".venv/pyvenv.cfg"), []byte("home = /usr/bin\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				h.dir = filepath.Join(project, c.from)
				if err := os.MkdirAll(h.dir, 0o755); err != nil {
					t.Fatal(err)
				}
				h.env = slices.DeleteFunc(h.env, func(kv string) bool { return strings.HasPrefix(kv, "XDG_CONFIG_HOME=") })
				h.env = append(h.env, "XDG_CONFIG_HOME="+t.TempDir(), "CLAUDE_PROJECT_DIR="+project)
				settings := strings.Join(c.settings, "\n")
				if strings.Contains(settings, "%") {
					settings = fmt.Sprintf(settings, project)
				}
				h.writeSandboxSettings(t, settings)
				cmd := h.command(t, "doctor", "--lang", "python")
				if c.confine != nil {
					cmd = c.confine(cmd)
				}
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Run(); cmd.ProcessState == nil {
					t.Fatal(err)
				}
				if !strings.Contains(out.String(), c.want) {
					t.Errorf("got %s\nwant %q in it", &out, c.want)
				}
				if fileExists(filepath.Join(project, "ran")) {
					t.Errorf("it wrote in the directory: %s", &out)
				}
			})
		}
	})

	t.Run("ends at Ctrl-C", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		newHomeWithoutClients(t).wantDoctorEndsAtCtrlC(t, "workspace")
	})
}
