//go:build unix

package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// cacheEnv names the directory of the workers' compiled code, for this process and the processes
// that tests start.
const cacheEnv = "E2E_CACHE"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Programs:  []testmain.Program{{Variable: birdServerEnv, Main: runBirdServer}},
		BuildRepl: true,
		Prepare: func(dir string) error {
			if os.Getenv(cacheEnv) != "" {
				return nil
			}
			return os.Setenv(cacheEnv, filepath.Join(dir, "cache"))
		},
	})
}

func newHome(t *testing.T) home {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	statSources(t)
	h := home{dir: t.TempDir(), tmp: t.TempDir()}
	h.env = append(os.Environ(),
		"TURNSTONE_SOCKET=", "TURNSTONE_VIA=", "TURNSTONE_REMOTE=", "XDG_RUNTIME_DIR="+t.TempDir(), "SLURM_JOB_ID=", // no daemon of the user who runs the tests
		"TMPDIR="+h.tmp, "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CACHE_HOME="+os.Getenv(cacheEnv),
		"TERM=xterm", "TMUX=", "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=")
	return h
}

// statSources makes the test result depend on the sources of the binary: the go command caches
// results by the files that a test looks at.
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

// exitStatusOf returns a shell's $?.
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

// wantNothingLeft checks that no session and no image of the home is left.
func (h home) wantNothingLeft(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"turnstone-*/*", "turnstone-images-*"} {
		if left, err := filepath.Glob(filepath.Join(h.tmp, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}

// newSocketName returns a socket for one daemon.
func newSocketName(t *testing.T) string {
	t.Helper()
	return filepath.Join(testexec.ShortDir(t), "d")
}

// noSocketMessage is the system's error for a missing socket.
const noSocketMessage = "connect: no such file or directory"

// invalidSocket returns a socket that no daemon can create, and invalidSocketReason is a part of
// the error.
func (h home) invalidSocket() string { return filepath.Join(h.tmp, strings.Repeat("x", 200)) }

const invalidSocketReason = "the system allows"

// withOwnConsole changes nothing here: signals reach one process.
func withOwnConsole(cmd *exec.Cmd) *exec.Cmd { return cmd }

// stopProgram asks a program to exit.
func stopProgram(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }

// stopMethods are the ways in which a user or the system stops a program.
var stopMethods = map[string]func(cmd *exec.Cmd) error{
	"SIGTERM": stopProgram,
	"SIGINT":  func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGINT) },
}

// hasPackages says that packages for Python can be installed: in Wine they cannot.
const hasPackages = true
