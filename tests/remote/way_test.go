//go:build linux

package remote

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
)

// remoteMarkEnv marks the local processes of one remote.
const remoteMarkEnv = "TURNSTONE_TEST_WAY"

// A testRemote connects one test to the daemon of an engine. Its processes can be distinguished
// from the processes of other tests. Local processes have a mark in their environment, and remote
// ones a unique socket name.
type testRemote struct {
	engine       *testEngine
	mark, socket string
	home         string // the local home directory
}

// newRemote creates a testRemote. At the end of the test none of its processes may run on either
// side.
func (e *testEngine) newRemote(t testing.TB) *testRemote {
	t.Helper()
	w := &testRemote{engine: e, mark: rand.Text()}
	w.home = filepath.Join(e.dir, "near"+w.mark[:8]) // a directory that containers see, too
	if err := os.Mkdir(w.home, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(e.dir, "w"+w.mark[:8])
	w.socket = filepath.Join(dir, filepath.Base(e.socketPath()))
	if err := os.Symlink(e.dir, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := waitUntil("no process of the remote is left", func() bool { return len(w.nearProcesses())+len(w.farProcesses()) == 0 }); err != nil {
			t.Errorf("%v: near %q, far %q", err, commandLines(w.nearProcesses()), commandLines(w.farProcesses()))
		}
	})
	return w
}

// prefix returns the command prefix.
func (r *testRemote) prefix() []string {
	return append([]string{"env", remoteMarkEnv + "=" + r.mark}, r.engine.prefix...)
}

// newLink returns a reconnecting client.
func (r *testRemote) newLink(t testing.TB) *client.Client {
	t.Helper()
	l := client.New(r.newDialer(), nil)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (r *testRemote) newDialer() *remote.CommandDialer {
	return &remote.CommandDialer{Name: r.engine.name, Prefix: r.prefix(), Program: binary, Socket: r.socket, GreetingTimeout: testTimeout, KeepAlive: 30 * time.Second}
}

// environment is the local environment of a command.
func (r *testRemote) environment() []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TURNSTONE_") }),
		"HOME="+r.home, "XDG_CONFIG_HOME="+r.home+"/config", "XDG_STATE_HOME="+r.home+"/state", "XDG_CACHE_HOME="+r.home+"/cache",
		"XDG_RUNTIME_DIR="+r.home, "TMPDIR="+r.home, "TERM=xterm", "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
}

// replCommand returns a repl command that uses the remote daemon.
func (r *testRemote) replCommand(t *testing.T, command string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, append([]string{command, "--via", strings.Join(r.prefix(), " "), "--socket", r.socket}, args...)...)
	cmd.Dir, cmd.Env = r.home, r.environment()
	return cmd
}

// runRepl runs a repl command until it exits.
func (r *testRemote) runRepl(t *testing.T, command string, args ...string) (out, errs string, status int) {
	t.Helper()
	return runToEnd(t, r.replCommand(t, command, args...))
}

// runToEnd runs a command until it exits.
func runToEnd(t *testing.T, cmd *exec.Cmd) (out, errs string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	late := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// prefixGroups returns the process groups of the prefix commands.
func (r *testRemote) prefixGroups() []int {
	return slices.DeleteFunc(r.nearProcesses(), func(pid int) bool {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		group, err := syscall.Getpgid(pid)
		return strings.TrimSpace(string(name)) != r.engine.prefixProgram || err != nil || group != pid
	})
}

// signalPrefixes sends a signal to every running prefix, and returns their number.
func (r *testRemote) signalPrefixes(s syscall.Signal) int {
	all := r.prefixGroups()
	for _, pid := range all {
		_ = syscall.Kill(-pid, s)
	}
	return len(all)
}

// nearProcesses returns the processes of the prefix, and the local ones that they have started.
// Slurm passes the environment on, so remote processes may be among them.
func (r *testRemote) nearProcesses() []int {
	return findProcesses("environ", remoteMarkEnv+"="+r.mark)
}

// farProcesses returns the bridge processes next to the daemon. The words of the prefix contain the
// socket, too.
func (r *testRemote) farProcesses() []int {
	return slices.DeleteFunc(findProcesses("cmdline", r.socket+"\x00"), func(pid int) bool {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return !strings.HasPrefix(string(line), binary+"\x00bridge\x00")
	})
}

// findProcesses returns the processes whose given file contains a text.
func findProcesses(file, text string) []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if content, err := os.ReadFile(filepath.Join("/proc", entry.Name(), file)); err == nil && bytes.Contains(content, []byte(text)) {
			all = append(all, pid)
		}
	}
	return all
}

// commandLines returns the command lines of processes.
func commandLines(pids []int) (all []string) {
	for _, pid := range pids {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		all = append(all, strconv.Itoa(pid)+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return all
}

// ownSession starts a command without a terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
