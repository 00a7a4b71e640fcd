//go:build linux

package remote

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/parallel"
)

// remoteTestsEnv names the directory of kubectl and of the cluster; the script run sets it.
const remoteTestsEnv = "TURNSTONE_TEST_REMOTES"

// workDir is the directory of all engines, and binary the built command in it.
var workDir, binary string

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(remoteTestsEnv) == "":
		fmt.Println("tests/remote: not run here: they need sshd, Slurm, podman and kubectl, which scripts/setup-dev installs; then tests/remote/run")
		os.Exit(0)
	case os.Getuid() != 0:
		fmt.Println("tests/remote: not run here: only root can start sshd, Slurm and podman")
		os.Exit(1)
	}
	parallel.AllowParallel()
	os.Exit(buildAndRun(m))
}

// buildAndRun builds the shared programs, and stops the engines that tests have started.
func buildAndRun(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "places"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(workDir)
	binary = filepath.Join(workDir, "bin", "repl")
	built := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/repl")
	built.Env = append(os.Environ(), "CGO_ENABLED=0") // it also runs in containers
	if out, err := built.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	defer stopEngines()
	return m.Run()
}
