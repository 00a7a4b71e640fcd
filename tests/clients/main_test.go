//go:build linux

package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

const (
	// clientsEnv names the directory of the installed clients; the script run sets it.
	clientsEnv = "TURNSTONE_TEST_CLIENTS"

	// markEnv marks every process of one test.
	markEnv = "CLIENTS_TEST"

	// testTimeout bounds every wait for a condition. A test that comes near it has failed.
	testTimeout = 60 * time.Second

	// programTimeout bounds a whole program: the conformance suite opens dozens of sessions, and
	// each starts an interpreter.
	programTimeout = 3 * time.Minute
)

func TestMain(m *testing.M) {
	o := testmain.Options{
		Commands:  map[string]func([]string) int{issuesArgument: serveIssues},
		Serial:    true,
		BuildRepl: true,
	}
	if os.Getenv(clientsEnv) == "" {
		o = testmain.Options{Commands: o.Commands, RunAll: skipAll}
	}
	testmain.Run(m, o)
}

func skipAll(*testing.M) (status int) {
	fmt.Println("tests/clients: not run here: they drive real clients, which tests/clients/run installs first")
	return 0
}

// replCommand is the command line of the server under test.
func replCommand(more ...string) []string {
	// The system's Python has the packages that scripts/setup-dev installs.
	return append([]string{replbin.Path(), "mcp", "--lang", "python", "--python", "/usr/bin/python3"}, more...)
}

// installedFile returns the only matching file below the clients' node_modules.
func installedFile(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv(clientsEnv), "node_modules", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %q, %v, want one file: remove the directory %s and install again", pattern, found, err, os.Getenv(clientsEnv))
	}
	return found[0]
}

// nodeCommand returns the command for a client's program in the bundled Node.
func nodeCommand(t testing.TB, program string, args ...string) []string {
	return append([]string{installedFile(t, "node-linux-*/bin/node"), program}, args...)
}

// A testHome is a client's environment: a home and a project directory, isolated from the user of
// this machine.
type testHome struct {
	home, project string
	sharedEnv     []string // variables for the server, even if the client passes nothing on
}

// newTestHome creates a home. At the end of the test no process may be left in it. A client that
// kills its server leaves a session's directory. The next server must remove it, except for the
// saved parts of a crashed session.
func newTestHome(t testing.TB) testHome {
	t.Helper()
	p := testHome{home: t.TempDir(), project: t.TempDir()}
	tmp := t.TempDir()
	p.sharedEnv = []string{markEnv + "=" + p.home, "TMPDIR=" + tmp, "XDG_CACHE_HOME=" + filepath.Join(p.home, "cache")}
	t.Cleanup(func() {
		wait.Within(testTimeout, func() bool { return len(p.findProcesses(t, "")) == 0 })
		for _, pid := range p.findProcesses(t, "") {
			t.Errorf("left behind: process %d: %s", pid, commandLine(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !wait.Within(testTimeout, func() bool { return !anyLocked(tmp) }) {
			t.Error("a session is locked")
		}
		if out, err := runToEnd(t, p.newCommand(replCommand())); err != nil { // it exits at the end of its input, which is empty
			t.Errorf("the next server: %v\n%s", err, out)
		}
		left, err := filepath.Glob(filepath.Join(tmp, "turnstone-*", "*"))
		left = slices.DeleteFunc(left, func(name string) bool { return strings.Contains(name, ".crashed-") })
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	})
	return p
}

// newCommand returns a command that runs in this home.
func (h testHome) newCommand(argv []string, env ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = h.project
	cmd.Env = append([]string{"HOME=" + h.home, "PATH=/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8"}, h.sharedEnv...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// writeFile writes a file in the home directory.
func (h testHome) writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(h.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// projectFileExists reports whether code has created a file in the project.
func (h testHome) projectFileExists(name string) bool {
	_, err := os.Stat(filepath.Join(h.project, name))
	return err == nil
}

// findProcesses returns the test's processes whose command line contains text.
func (h testHome) findProcesses(t testing.TB, text string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil { // another user's process, or gone
			continue
		}
		if bytes.Contains(env, []byte(h.sharedEnv[0]+"\x00")) && strings.Contains(commandLine(pid), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// anyLocked reports whether a server still locks a session. A process that is exiting has lost its
// environment and is no longer found through it.
func anyLocked(tmp string) bool {
	locks, _ := filepath.Glob(filepath.Join(tmp, "turnstone-*", "*", "lock"))
	return slices.ContainsFunc(locks, func(path string) bool {
		lock, err := os.Open(path)
		if err != nil {
			return false
		}
		defer lock.Close()
		return syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
	})
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// runToEnd runs a command until it exits, with a timeout.
func runToEnd(t testing.TB, cmd *exec.Cmd) (output string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = testTimeout // for processes that hold its output open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(programTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err = cmd.Wait()
	return out.String(), err
}
