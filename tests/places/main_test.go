//go:build linux

package places

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/tests/waits"
)

// kubeEnv names the directory of kubectl and of the cluster; run sets it.
const kubeEnv = "TURNSTONE_TEST_PLACES"

// work is the directory of all engines, and binary the built command in it.
var work, binary string

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(kubeEnv) == "":
		fmt.Println("tests/places: not run here: they need sshd, Slurm, podman and kubectl, which scripts/setup-dev installs; then tests/places/run")
		os.Exit(0)
	case os.Getuid() != 0:
		fmt.Println("tests/places: not run here: only root can start sshd, Slurm and podman")
		os.Exit(1)
	}
	waits.SideBySide()
	os.Exit(build(m))
}

// build makes what all engines share, and ends the engines that tests have started.
func build(m *testing.M) int {
	var err error
	if work, err = os.MkdirTemp("", "places"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(work)
	binary = filepath.Join(work, "bin", "repl")
	built := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/repl")
	built.Env = append(os.Environ(), "CGO_ENABLED=0") // it also runs in containers
	if out, err := built.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	defer stopEngines()
	return m.Run()
}
