//go:build linux || windows

package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, RunAll: sandboxcheck.RunTests})
}

// eachPython runs a test with the Python that the search finds and, on request, with all of pyenv's.
func eachPython(t *testing.T, test func(t *testing.T, o python.Options)) {
	t.Run("default", func(t *testing.T) { test(t, python.Options{}) })
	if !interpreters.TestsAll() {
		return
	}
	installed, err := interpreters.Installed()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range installed {
		t.Run(i.Version, func(t *testing.T) { test(t, python.Options{Path: i.Path}) })
	}
}

// openSession opens a session and waits for its start-up, which must not request input. Compiled code is
// cached for the whole machine, as for users.
func openSession(t *testing.T, o python.Options) *sessionkit.TestSession {
	t.Helper()
	return sessionkit.OpenSession(t, python.Spec(o))
}

// newGate returns a line of code that waits until goOn is called.
func newGate(t *testing.T) (wait string, goOn func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	wait = fmt.Sprintf("while not __import__('os').path.exists(%q): __import__('time').sleep(0.01)", path)
	return wait, func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// wantCleanTurn runs a turn that prints and reads. It fails the test if the previous turn shows in its
// output.
func wantCleanTurn(t *testing.T, r *sessionkit.TestSession) {
	t.Helper()
	res := r.RunCode(t, "print(input('next? '), 6 * 7)", "fresh")
	const want = `next? [wait "next? "][line "fresh"]fresh 42` + "\n"
	if got := res.Transcript(); got != want || res.Outcome != "ok" {
		t.Errorf("the next turn got %.2000q %s, want %q", got, res.Outcome, want)
		r.RestartWorker(t)
	}
}
