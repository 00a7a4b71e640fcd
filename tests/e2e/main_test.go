//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/tests/fakeworker"
)

// deadline bounds every wait for a fact. A test that gets near it has failed.
const deadline = 2 * time.Minute

// binary is the built command, and cache the workers' compiled code: both are
// written once, by TestMain.
const (
	binaryEnv = "E2E_BINARY"
	cacheEnv  = "E2E_CACHE"
)

func TestMain(m *testing.M) {
	if fakeworker.Requested() {
		fakeworker.Main()
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "repl")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/repl").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	os.Setenv(binaryEnv, binary)
	os.Setenv(cacheEnv, filepath.Join(dir, "cache"))
	return m.Run()
}

// A home is where one test's commands keep their files.
type home struct {
	dir string // the working directory
	tmp string // for temporary files
	env []string
}

func newHome(t *testing.T) home {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	lookAtSources(t)
	h := home{dir: t.TempDir(), tmp: t.TempDir()}
	h.env = append(os.Environ(),
		"TMPDIR="+h.tmp, "XDG_STATE_HOME="+t.TempDir(), "XDG_CACHE_HOME="+os.Getenv(cacheEnv),
		"TERM=xterm", "TMUX=", "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=")
	return h
}

// lookAtSources makes the result of the test depend on what the binary is built
// from: the go command keeps results by the files that a test looks at.
func lookAtSources(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"cmd", "ipc", "supervisor", "timeline", "workers", "go.mod"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// command is repl with args. It is killed at the deadline.
func (h home) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Getenv(binaryEnv), args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	return cmd
}

// A result is what a command left: what a script would see.
type result struct {
	stdout, stderr string
	status         int
}

func (r result) String() string {
	return fmt.Sprintf("status %d, output %q, errors %q", r.status, r.stdout, r.stderr)
}

// run runs repl with text as its standard input.
func (h home) run(t *testing.T, text string, args ...string) result {
	t.Helper()
	cmd := h.command(t, args...)
	cmd.Stdin = strings.NewReader(text)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		t.Fatal(e)
	}
	return result{out.String(), err.String(), status(t, cmd)}
}

// status is a shell's $?.
func status(t *testing.T, cmd *exec.Cmd) int {
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

// want compares whole results.
func want(t *testing.T, got, want result) {
	t.Helper()
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// leavesNothing checks that no session and no picture of the home's is left.
func (h home) leavesNothing(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"turnstone-*/*", "turnstone-pictures-*"} {
		if left, err := filepath.Glob(filepath.Join(h.tmp, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}

// readUntil reads r until text has come, and returns everything.
func readUntil(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(all, []byte(text)) {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil && !bytes.Contains(all, []byte(text)) {
			t.Fatalf("got %q and then %v, want %q", all, err, text)
		}
	}
	return string(all)
}

// eventually waits for a fact that nobody announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(deadline)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it does not come true that %s", what)
		}
	}
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}
