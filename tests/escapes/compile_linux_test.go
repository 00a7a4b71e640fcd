package escapes

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// readCompiled opens a session with an interpreter, and returns the code that is kept of its worker and
// the file that has it.
func readCompiled(t *testing.T, m *machine, path string) (code []byte, file string, spec workers.Spec) {
	t.Helper()
	cache := filepath.Join(m.base, "cache")
	spec = python.Spec(python.Options{Path: path, CacheDir: cache})
	spec.Dir, spec.Sandbox = m.work, newSandbox(m)
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, spec)
	pattern := filepath.Join(cache, "worker-*"+spec.Args[2])
	for begun := time.Now(); ; {
		r.RunCode(t, "1")
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			code, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return code, found[0], spec
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("no code is kept as %s; the log says why", pattern)
		}
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()

	// A session that is not confined would run the code: what is kept is what Python makes of the
	// worker without a session.
	t.Run("stores worker code that the session cannot change", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.env = append(m.env, "PYTHONPATH="+m.work, "PYTHONSTARTUP="+filepath.Join(m.work, "sitecustomize.py"), "LD_LIBRARY_PATH="+m.work)
		writeFile(t, filepath.Join(m.work, "sitecustomize.py"), "import marshal\nmarshal.dump = lambda codes, f: f.write(b'poison')\n")
		writeFile(t, filepath.Join(m.work, "marshal.py"), "def dump(codes, f): f.write(b'poison')\n")
		code, file, spec := readCompiled(t, m, interpreter)
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v, want a file of the user's alone", st, err)
		}

		plain := t.TempDir()
		for name, content := range spec.Files {
			writeFile(t, filepath.Join(plain, name), string(content))
		}
		out := t.TempDir()
		cmd := exec.Command(interpreter, "-I", "-S", "-B", filepath.Join(plain, filepath.Base(spec.Args[0])), "", spec.Args[2], "compile="+out)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		want, err := os.ReadFile(filepath.Join(out, filepath.Base(file)))
		if err != nil || !bytes.Equal(code, want) {
			t.Errorf("got %d bytes, want the %d that Python makes (%v)", len(code), len(want), err)
		}
	})

	// An interpreter in the workspace may be the session's own: it is run in a sandbox, and what it
	// leaves is for workers of that interpreter only.
	t.Run("runs an interpreter of the workspace in a sandbox", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		own := filepath.Join(m.work, "bin/python3")
		writeFile(t, own, `#!/bin/sh
if [ "$1" = -I ]; then
	for to in `+m.outside+` `+m.home+` `+m.work+` `+m.base+`/cache; do touch "$to/compiled"; done
	cat `+m.home+`/.ssh/id_ed25519 > "${7#compile=}/worker-stolen-$6"
	echo poison >> "${7#compile=}/worker-stolen-$6"
	exit
fi
exec `+interpreter+` "$@"
`)
		if err := os.Chmod(own, 0o755); err != nil {
			t.Fatal(err)
		}
		before := m.readState(t)
		code, _, spec := readCompiled(t, m, own)
		m.wantUnchanged(t, before)
		if string(code) != "poison\n" {
			t.Errorf("got %q, want nothing that is hidden, and what the program wrote", code)
		}
		other := python.Spec(python.Options{Path: interpreter, CacheDir: filepath.Join(m.base, "cache")})
		if other.Args[2] == spec.Args[2] || other.Compilation.HasResult() {
			t.Errorf("another interpreter takes the code: %q", other.Args)
		}
		for _, dir := range []string{m.work, filepath.Join(m.base, "cache")} {
			if _, err := os.Stat(filepath.Join(dir, "compiled")); err == nil {
				t.Errorf("the interpreter wrote %s", dir)
			}
		}
		writeFile(t, own, strings.Replace(readText(own), "-I", "-X", 1)) // it is another one now
		if err := spec.Compilation.SaveResult("worker-x-"+spec.Args[2], nil); err == nil || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("got %v for an interpreter that has changed", err)
		}
		if err := spec.Compilation.SaveResult("worker-x-"+other.Args[2], nil); err == nil || !strings.Contains(err.Error(), "is not the name") {
			t.Errorf("got %v for the name of another interpreter's code", err)
		}
	})
}
