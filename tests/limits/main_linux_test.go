package limits

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// The kernel does not limit the processes of root.
func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, RunAll: sandboxcheck.RunUnprivileged, Serial: true})
}

// withAndWithoutSandbox runs a test without a sandbox and with one.
func withAndWithoutSandbox(t *testing.T, test func(t *testing.T, box *sandbox.Policy)) {
	t.Run("plain", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		test(t, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone})
	})
}

// openSession opens a session with limits, and waits until it is ready.
func openSession(t *testing.T, spec workers.Spec, box *sandbox.Policy, l workers.Limits) *sessionkit.TestSession {
	t.Helper()
	if box != nil {
		sandboxcheck.RequireNamespaces(t)
	}
	spec.Sandbox, spec.Limits, spec.Dir = box, l, t.TempDir()
	return sessionkit.OpenSession(t, spec)
}

// requireForkLimit skips a test if the kernel does not limit this user's processes. That is so for
// root outside of a user namespace. In most runs, these tests have become another user before.
func requireForkLimit(t *testing.T, box *sandbox.Policy) {
	t.Helper()
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	everybody := []string{"0", "0", "4294967295"}
	if box == nil && os.Getuid() == 0 && slices.Equal(strings.Fields(string(users)), everybody) {
		t.Skip("the kernel refuses root no process, and this root cannot become another user")
	}
}

func openPython(t *testing.T, box *sandbox.Policy, l workers.Limits) *sessionkit.TestSession {
	t.Helper()
	return openSession(t, python.Spec(python.Options{Path: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")}), box, l)
}

func openR(t *testing.T, box *sandbox.Policy, l workers.Limits) *sessionkit.TestSession {
	t.Helper()
	spec := r.Spec(r.Options{})
	if spec.Err != nil {
		t.Skip(spec.Err)
	}
	return openSession(t, spec, box, l)
}
