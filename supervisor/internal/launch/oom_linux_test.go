package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// newMemoryCgroup creates a cgroup with a memory limit, below the test's own.
func newMemoryCgroup(t *testing.T, limit int) (procs string) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("cgroups are not available")
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		var base, file string
		switch f[1] {
		case "memory":
			base, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case "":
			base, file = "/sys/fs/cgroup", "memory.max"
		default:
			continue
		}
		dir := filepath.Join(base, f[2], fmt.Sprintf("turnstone-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			wait.Until(t, "the group is removed", func() bool { return os.Remove(dir) == nil })
		})
		if os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("no right to make a memory cgroup")
	return ""
}

func TestExitOutOfMemory(t *testing.T) {
	procs := newMemoryCgroup(t, 128<<20)
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > "$0"; exec "$@"`, procs, testBinary(t),
		findProgram(t, "python3"), "-c", "import os; os.read(int(os.environ['REPL_IPC'].split(',')[0]), 0); x = b'x' * (512 << 20)")
	s := runSupervisor(t, cmd, "supervise")
	if line, _ := s.out.ReadString('\n'); line != "ended: killed by SIGKILL (out of memory)\n" {
		t.Errorf("got %q, want a kill for lack of memory", line)
	}
}
