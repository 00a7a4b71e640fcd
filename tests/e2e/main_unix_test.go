//go:build unix

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/parallel"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// binary is the built command, and cache the workers' compiled code: both are
// written once, by TestMain.
const (
	binaryEnv = "E2E_BINARY"
	cacheEnv  = "E2E_CACHE"
)

func TestMain(m *testing.M) {
	if os.Getenv(birdServerEnv) != "" {
		runBirdServer()
		return
	}
	parallel.AllowParallel()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if replBinary() != "" { // a test has started this program
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "repl")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/repl").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	os.Setenv(binaryEnv, binary)
	os.Setenv(cacheEnv, filepath.Join(dir, "cache"))
	return m.Run()
}

func replBinary() string { return os.Getenv(binaryEnv) }

func newHome(t *testing.T) home {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	statSources(t)
	h := home{dir: t.TempDir(), tmp: t.TempDir()}
	h.env = append(os.Environ(),
		"TURNSTONE_SOCKET=", "TURNSTONE_VIA=", "TURNSTONE_REMOTE=", "XDG_RUNTIME_DIR="+t.TempDir(), "SLURM_JOB_ID=", // no daemon of the one who tests
		"TMPDIR="+h.tmp, "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CACHE_HOME="+os.Getenv(cacheEnv),
		"TERM=xterm", "TMUX=", "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=")
	return h
}

// statSources makes the result of the test depend on what the binary is built
// from: the go command keeps results by the files that a test looks at.
func statSources(t *testing.T) {
	t.Helper()
	if err := statAllSources(); err != nil {
		t.Fatal(err)
	}
}

var statAllSources = sync.OnceValue(func() error {
	for _, dir := range []string{"client", "cmd", "internal", "ipc", "session", "supervisor", "timeline", "workers", "go.mod"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
})

// exitStatusOf is a shell's $?.
func exitStatusOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatalf("%v has no wait status", cmd)
	}
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}

// wantNothingLeft checks that no session and no picture of the home's is left.
func (h home) wantNothingLeft(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"turnstone-*/*", "turnstone-images-*"} {
		if left, err := filepath.Glob(filepath.Join(h.tmp, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}

// newSocketName is a socket for one daemon. A test's own directory has too long a name.
func newSocketName(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "d")
}

// noSocketMessage is what the system says of a socket that is not there.
const noSocketMessage = "connect: no such file or directory"

// invalidSocket is one that no daemon makes, and invalidSocketReason a part of why.
func (h home) invalidSocket() string { return filepath.Join(h.tmp, strings.Repeat("x", 200)) }

const invalidSocketReason = "the system allows"

// withOwnConsole has nothing to change here: signals reach one process.
func withOwnConsole(cmd *exec.Cmd) *exec.Cmd { return cmd }

// stopProgram asks a program to end.
func stopProgram(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }

// stopMethods are those that a person or the system has.
var stopMethods = map[string]func(cmd *exec.Cmd) error{
	"SIGTERM": stopProgram,
	"SIGINT":  func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGINT) },
}

func isAlive(pid int) bool { return testexec.IsAlive(pid) }
