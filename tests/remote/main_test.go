//go:build linux

package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
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
	testmain.Run(m, testmain.Options{
		Prepare: func(dir string) error {
			workDir, binary = dir, filepath.Join(dir, "bin", "repl")
			return replbin.Build(binary, "CGO_ENABLED=0") // it also runs in containers
		},
		AtEnd: stopEngines,
	})
}
