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

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

// testTimeout bounds every wait for a fact. A test that gets near it has failed.
const testTimeout = 2 * time.Minute

// A home is where one test's commands keep their files.
type home struct {
	dir string // the working directory
	tmp string // for temporary files
	env []string

	wantsSandbox bool // its test is about the sandbox
}

// command is repl with args. It is killed at the deadline.
func (h home) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return h.commandWithin(ctx, args...)
}

// commandWithin is repl with args. It is killed at the end of a context.
func (h home) commandWithin(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, replBinary(), args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	return cmd
}

// A result is the end of a command as a script would see it.
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

// waitUntil waits for a fact that nobody announces.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(testTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it does not come true that %s", what)
		}
	}
}

// mcpCommand is the command of a server for Python. Where no sandbox can be made, or one whose first reply
// says that it has no copy of the caches, its sessions are in none, unless args say which or the test is
// about that.
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

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !isAlive(pid) })
}

// envValue is the value of a variable that commands of h get.
func (h home) envValue(name string) (value string) {
	for _, kv := range h.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
