//go:build linux || darwin

package r_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{})
}

type (
	worker = rawworker.RawWorker
	result = rawworker.RawResult
)

// A workerSetup configures how a test starts an R worker.
type workerSetup struct {
	options     r.Options
	rprofile    string // the user's .Rprofile
	siteProfile string // Rprofile.site
	noPackages  bool   // without R's default packages: it starts in half the time
	rawworker.WorkerOptions
}

// startWorker starts an R worker that sees no profile of the OS user who runs the test, and waits for
// its first idle.
func startWorker(t testing.TB, s workerSetup) *worker {
	t.Helper()
	return rawworker.StartWorker(t, newSpec(t, s), s.WorkerOptions)
}

// newSpec returns the spec of the worker. With a compiler, it builds the shim from the source in the
// tree.
func newSpec(t testing.TB, s workerSetup) workers.Spec {
	t.Helper()
	if _, _, err := r.Find(r.FindOptions{}); err != nil {
		t.Skipf("R is not installed: install it with apt-get install r-base-core (%v)", err)
	}
	o := s.options
	_, err := exec.LookPath("cc")
	o.CompileShim = err == nil
	// The test alone controls R, not the environment of its OS user.
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "R_") || strings.HasPrefix(name, "TURNSTONE_") {
			env = append(env, name)
		}
	}
	for name, text := range map[string]string{"R_PROFILE_USER": s.rprofile, "R_PROFILE": s.siteProfile, "R_ENVIRON_USER": ""} {
		path := os.DevNull
		if text != "" {
			path = filepath.Join(t.TempDir(), name)
			writeFile(t, path, text+"\n") // R skips an unterminated last line
		}
		env = append(env, name+"="+path)
	}
	// R processes that the worker starts, and that are killed with it, leave their directories here.
	temporary := testexec.ShortDir(t)
	if s.noPackages {
		env = append(env, "R_DEFAULT_PACKAGES=NULL")
	}
	o.Env = slices.Concat(env, []string{"TMPDIR=" + temporary}, o.Env)
	return r.Spec(o)
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// describeOutcome returns the outcome of a turn as text: "error: no such thing", "interrupted, 3 unrun".
func describeOutcome(r result) string {
	if r.Idle == nil {
		return "ended"
	}
	s := string(r.Idle.Outcome)
	if r.Idle.Error != nil {
		s += ": " + r.Idle.Error.Message
	}
	if r.Idle.Unrun > 0 {
		s += fmt.Sprintf(", %d unrun", r.Idle.Unrun)
	}
	return s
}
