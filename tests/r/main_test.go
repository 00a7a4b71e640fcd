//go:build linux || windows

package r_test

import (
	"os"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, RunAll: sandboxcheck.RunTests})
}

// openSession opens a session and waits for its start-up, which must not request input.
func openSession(t *testing.T, o r.Options) *sessionkit.TestSession {
	t.Helper()
	return sessionkit.OpenSession(t, newSpec(t, o))
}

// newSpec returns the spec of an R that sees no profile of the OS user who runs the test.
func newSpec(t *testing.T, o r.Options) workers.Spec {
	t.Helper()
	if _, _, err := r.Find(r.FindOptions{}); err != nil {
		t.Skipf("R is not installed: install it with apt-get install r-base-core (%v)", err)
	}
	o.Env = slices.Concat([]string{"R_PROFILE_USER=" + os.DevNull, "R_ENVIRON_USER=" + os.DevNull}, systemEnv, o.Env)
	return r.Spec(o)
}

// wantCleanTurn runs a turn that prints and reads. It fails the test if the previous turn shows in its
// output.
func wantCleanTurn(t *testing.T, s *sessionkit.TestSession) {
	t.Helper()
	res := s.RunCode(t, "cat(readline('next? '), 6 * 7, '\\n')", "fresh")
	const want = `[wait "next? "][line "fresh"]fresh 42 ` + "\n"
	if got := res.Transcript(); got != want || res.Outcome != "ok" {
		t.Errorf("the next turn got %.2000q %s, want %q", got, res.Outcome, want)
		s.RestartWorker(t)
	}
}
