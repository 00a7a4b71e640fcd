package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// testTimeout bounds every wait for a condition. A test that comes close to it has failed.
const testTimeout = 2 * time.Minute

// A home contains the files of the commands of one test.
type home struct {
	dir string // the working directory
	tmp string // for temporary files
	env []string

	wantsSandbox bool // the test checks the sandbox
}

// command returns repl with args. It is killed at the deadline.
func (h home) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return h.commandWithin(ctx, args...)
}

// commandWithin returns repl with args. It is killed at the end of a context.
func (h home) commandWithin(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, replbin.Path(), args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	return cmd
}

// A result is the outcome of a command as a script sees it.
type result struct {
	stdout, stderr string
	status         int
}

func (r result) String() string {
	return fmt.Sprintf("status %d, output %q, errors %q", r.status, r.stdout, r.stderr)
}

// runRepl runs repl with text as its standard input.
func (h home) runRepl(t *testing.T, text string, args ...string) result {
	t.Helper()
	cmd := h.command(t, args...)
	cmd.Stdin = strings.NewReader(text)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		t.Fatal(e)
	}
	return result{out.String(), err.String(), exitStatusOf(t, cmd)}
}

// wantResult compares whole results.
func wantResult(t *testing.T, got, want result) {
	t.Helper()
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// readUntil reads r until text appears, and returns everything read.
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

// mcpCommand returns the command of a server for Python. Its sessions have no sandbox if this
// system allows none, or if their first reply would report missing copies of caches. It keeps the
// default if args choose a level, or if the test is about the sandbox.
func (h home) mcpCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if !h.wantsSandbox && !slices.Contains(args, "--sandbox") && (sandboxcheck.WhyNoNamespaces() != "" || sandboxcheck.WhyNoLayers(home) != "") {
		args = append([]string{"--sandbox", "full"}, args...)
	}
	return h.command(t, append([]string{"mcp", "--lang", "python"}, args...)...)
}

// waitGone waits until a process has exited.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !testexec.IsAlive(pid) })
}

// envValue returns the value of a variable for commands of h.
func (h home) envValue(name string) string { return environ.Get(h.env, name) }
