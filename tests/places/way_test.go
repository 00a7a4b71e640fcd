//go:build linux

package places

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
)

// markEnv marks the near processes of one way.
const markEnv = "PLACES_WAY"

// A way is how one test reaches an engine's daemon. Its processes can be told from those of other
// tests: near ones by a mark in their environment, far ones by a name of the socket that is theirs.
type way struct {
	e            *engine
	mark, socket string
	home         string // the near side's
}

// way makes one. At the end of the test nothing of it may run on either side.
func (e *engine) way(t testing.TB) *way {
	t.Helper()
	w := &way{e: e, mark: rand.Text()}
	w.home = filepath.Join(e.dir, "near"+w.mark[:8]) // where a container sees it, too
	if err := os.Mkdir(w.home, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(e.dir, "w"+w.mark[:8])
	w.socket = filepath.Join(dir, filepath.Base(e.socket()))
	if err := os.Symlink(e.dir, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := until("no process of the way is left", func() bool { return len(w.near())+len(w.far()) == 0 }); err != nil {
			t.Errorf("%v: near %q, far %q", err, commandLines(w.near()), commandLines(w.far()))
		}
	})
	return w
}

// words are the prefix.
func (w *way) words() []string {
	return append([]string{"env", markEnv + "=" + w.mark}, w.e.words...)
}

// link is the way for a program.
func (w *way) link(t testing.TB) *client.Link {
	t.Helper()
	l := client.NewLink(w.dialer(), nil)
	t.Cleanup(l.Close)
	return l
}

func (w *way) dialer() *client.Command {
	return &client.Command{Name: w.e.name, Prefix: w.words(), Program: binary, Socket: w.socket, GreetingTimeout: deadline, KeepAlive: 30 * time.Second}
}

// env is the near side's environment of a command.
func (w *way) env() []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "REPL_") }),
		"HOME="+w.home, "XDG_CONFIG_HOME="+w.home+"/config", "XDG_STATE_HOME="+w.home+"/state", "XDG_CACHE_HOME="+w.home+"/cache",
		"XDG_RUNTIME_DIR="+w.home, "TMPDIR="+w.home, "TERM=xterm", "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
}

// repl is a command of ours that uses the far daemon.
func (w *way) repl(t *testing.T, command string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, append([]string{command, "--via", strings.Join(w.words(), " "), "--socket", w.socket}, args...)...)
	cmd.Dir, cmd.Env = w.home, w.env()
	return cmd
}

// says runs one to its end.
func (w *way) says(t *testing.T, command string, args ...string) (out, errs string, status int) {
	t.Helper()
	return finish(t, w.repl(t, command, args...))
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) (out, errs string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	late := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// prefixes are the process groups of the prefix.
func (w *way) prefixes() []int {
	return slices.DeleteFunc(w.near(), func(pid int) bool {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		group, err := syscall.Getpgid(pid)
		return strings.TrimSpace(string(name)) != w.e.program || err != nil || group != pid
	})
}

// signal sends one to every prefix that runs, and returns to how many.
func (w *way) signal(s syscall.Signal) int {
	all := w.prefixes()
	for _, pid := range all {
		_ = syscall.Kill(-pid, s)
	}
	return len(all)
}

// near are the processes of the prefix, and what they have started here. The environment goes along
// with Slurm, so far ones may be among them.
func (w *way) near() []int {
	return processes("environ", markEnv+"="+w.mark)
}

// far are the ends of the way that are beside the daemon. The words of the prefix have the socket, too.
func (w *way) far() []int {
	return slices.DeleteFunc(processes("cmdline", w.socket+"\x00"), func(pid int) bool {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return !strings.HasPrefix(string(line), binary+"\x00dial\x00")
	})
}

// processes are those with a text in a file of theirs.
func processes(file, text string) []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if held, err := os.ReadFile(filepath.Join("/proc", entry.Name(), file)); err == nil && bytes.Contains(held, []byte(text)) {
			all = append(all, pid)
		}
	}
	return all
}

// commandLines are those of processes.
func commandLines(pids []int) (all []string) {
	for _, pid := range pids {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		all = append(all, strconv.Itoa(pid)+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return all
}

// ownSession has a command without a terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
