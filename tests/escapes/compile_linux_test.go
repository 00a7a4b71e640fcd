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

// readCompiled opens a session with an interpreter. It returns the stored code of its worker, and
// the path of that file.
func readCompiled(t *testing.T, m *machine, path string) (code []byte, file string, spec workers.Spec) {
	t.Helper()
	cache := filepath.Join(m.base, "cache")
	spec = python.Spec(python.Options{Path: path, CacheDir: cache})
	spec.Dir, spec.Sandbox = m.work, newSandbox(m)
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, spec)
	pattern := filepath.Join(cache, "worker-*"+spec.Args[2])
	for started := time.Now(); ; {
		r.RunCode(t, "1")
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			code, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return code, found[0], spec
		}
		if time.Since(started) > time.Minute {
			t.Fatalf("no code was stored as %s; see the log", pattern)
		}
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()

	// A session without a sandbox would run the code, so the stored code must be what Python
	// compiles without a session.
	t.Run("stores worker code that the session cannot change", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.env = append(m.env, "PYTHONPATH="+m.work, "PYTHONSTARTUP="+filepath.Join(m.work, "sitecustomize.py"), "LD_LIBRARY_PATH="+m.work)
		writeFile(t, filepath.Join(m.work, "sitecustomize.py"), "import marshal\nmarshal.dump = lambda codes, f: f.write(b'poison')\n")
		writeFile(t, filepath.Join(m.work, "marshal.py"), "def dump(codes, f): f.write(b'poison')\n")
		code, file, spec := readCompiled(t, m, interpreter)
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v, want a file that only the user can access", st, err)
		}

		plain := t.TempDir()
		for name, content := range spec.Files {
			writeFile(t, filepath.Join(plain, name), string(content))
		}
		out := t.TempDir()
		cmd := exec.Command(interpreter, "-I", "-S", "-B", filepath.Join(plain, filepath.Base(spec.Args[0])), "", spec.Args[2], "compile="+out)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		want, err := os.ReadFile(filepath.Join(out, filepath.Base(file)))
		if err != nil || !bytes.Equal(code, want) {
			t.Errorf("got %d bytes, want the %d that Python writes (%v)", len(code), len(want), err)
		}
	})

	// An interpreter in the workspace may come from the session itself. It is run in a sandbox, and
	// the code that it stores is only for workers of that interpreter.
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
			t.Errorf("got %q, want no hidden data, and the program's output", code)
		}
		other := python.Spec(python.Options{Path: interpreter, CacheDir: filepath.Join(m.base, "cache")})
		if other.Args[2] == spec.Args[2] || other.Compilation.HasResult() {
			t.Errorf("another interpreter uses the code: %q", other.Args)
		}
		for _, dir := range []string{m.work, filepath.Join(m.base, "cache")} {
			if _, err := os.Stat(filepath.Join(dir, "compiled")); err == nil {
				t.Errorf("the interpreter wrote %s", dir)
			}
		}
		writeFile(t, own, strings.Replace(readText(own), "-I", "-X", 1)) // now it is a different interpreter
		if err := spec.Compilation.SaveResult("worker-x-"+spec.Args[2], nil); err == nil || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("got %v for an interpreter that has changed", err)
		}
		if err := spec.Compilation.SaveResult("worker-x-"+other.Args[2], nil); err == nil || !strings.Contains(err.Error(), "is not the name") {
			t.Errorf("got %v for the name of another interpreter's code", err)
		}
	})
}
