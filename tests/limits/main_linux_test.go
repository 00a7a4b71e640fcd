package limits

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/tests/confined"
	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// No kernel limits the processes of root.
func TestMain(m *testing.M) {
	supervisor.StageMain()
	os.Exit(confined.WithoutRights(m))
}

// eachWay runs a test without a sandbox and with one.
func eachWay(t *testing.T, test func(t *testing.T, box *workers.Sandbox)) {
	t.Run("plain", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		test(t, &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone})
	})
}

// openIn opens a session with limits, and waits until it is ready.
func openIn(t *testing.T, spec workers.Spec, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	if box != nil {
		confined.NeedsNamespaces(t)
	}
	spec.Sandbox, spec.Limits, spec.Dir = box, l, t.TempDir()
	return drive.Open(t, spec)
}

// needsRefusedForks skips a test where the kernel refuses this user no process: root outside of a user
// namespace, unless it can become another user, as it does in most runs of these tests.
func needsRefusedForks(t *testing.T, box *workers.Sandbox) {
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

func openPython(t *testing.T, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	return openIn(t, python.Spec(python.Options{Path: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")}), box, l)
}

func openR(t *testing.T, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	spec := r.Spec(r.Options{})
	if spec.Err != nil {
		t.Skip(spec.Err)
	}
	return openIn(t, spec, box, l)
}
