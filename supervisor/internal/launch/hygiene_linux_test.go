package launch_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

func TestWorker(t *testing.T) {
	t.Parallel()

	t.Run("inherits only the terminal and the channel", func(t *testing.T) {
		t.Parallel()
		// A descriptor that by mistake is not marked close-on-exec.
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer wr.Close()
		leak, err := syscall.Dup(int(wr.Fd())) // without the mark
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(leak)

		w := startProgram(t, "cat")
		waitReader(t, w) // the loader has closed its own files
		dir := fmt.Sprintf("/proc/%d/fd", w.PID())
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			target, _ := os.Readlink(filepath.Join(dir, e.Name()))
			got = append(got, e.Name()+" "+strings.TrimRight(target, "0123456789[]:"))
		}
		slices.Sort(got)
		want := []string{"0 /dev/pts/", "1 /dev/pts/", "2 /dev/pts/", "3 pipe", "4 pipe"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("gets the environment of the command unchanged", func(t *testing.T) {
		t.Parallel()
		env := []string{"A=1", "GOGC=77", "GODEBUG=x=1", "BYTES=\xff\xfe\x01", "EMPTY=", "REPL_IPC=9,9,stale", "TURNSTONE_TAG=stale"}
		w := startCommand(t, &launch.StartConfig{Path: findProgram(t, "cat"), Env: env})
		waitReader(t, w) // a process has no environment during its exec
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.PID()))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if len(got) != 7 || !slices.Equal(got[:5], env[:5]) ||
			got[5] != "REPL_IPC=3,4,"+w.Nonce() || !strings.HasPrefix(got[6], "TURNSTONE_TAG=") || got[6] == "TURNSTONE_TAG=stale" {
			t.Errorf("got %q, want %q, then our two", got, env[:5])
		}
	})

	t.Run("runs in its directory with its arguments", func(t *testing.T) {
		t.Parallel()
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w := startCommand(t, &launch.StartConfig{Path: findProgram(t, "bash"), Args: []string{"-c", `pwd; echo "$0 $1"`, "a b", "c\xff"}, Dir: dir})
		if got, want := w.waitAll(t), dir+"\na b c\xff\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("gets the terminal size of the command", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			size pty.TerminalSize
			want string
		}{{pty.TerminalSize{}, "40 120"}, {pty.TerminalSize{Rows: 7, Cols: 33}, "7 33"}} {
			w := startCommand(t, &launch.StartConfig{Path: findProgram(t, "stty"), Args: []string{"size"}, Size: c.size})
			if got := strings.TrimSpace(w.waitAll(t)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
	})

	t.Run("starts without ignored or blocked signals", func(t *testing.T) {
		t.Parallel()
		// A shell's background job or nohup ignores signals, and a careless parent blocks them; both
		// survive exec.
		cmd := exec.Command(findProgram(t, "python3"), "-c", `
import os, signal, sys
for s in signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCHLD, signal.SIGUSR1, signal.SIGWINCH, signal.SIGRTMAX:
    signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])`, testBinary(t), findProgram(t, "cat"), "/proc/self/status")
		s := runSupervisor(t, cmd, "supervise")
		for range 100 {
			line, err := s.out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			name, value, _ := strings.Cut(line, ":")
			if name == "SigBlk" || name == "SigIgn" {
				if got := strings.TrimSpace(value); got != "0000000000000000" {
					t.Errorf("%s: got %s, want none", name, got)
				}
			}
			if name == "SigCgt" {
				return
			}
		}
		t.Error("got no complete list of signals from /proc/self/status")
	})
}

// A supervisorProcess is another process of this test binary that supervises a worker.
type supervisorProcess struct {
	*exec.Cmd
	in         io.WriteCloser
	out        *bufio.Reader
	worker     int
	hasMonitor bool
}

func runSupervisor(t *testing.T, cmd *exec.Cmd, role string) *supervisorProcess {
	t.Helper()
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	s := &supervisorProcess{Cmd: cmd}
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// StdoutPipe cannot be used, because the test reads during and after Wait.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
	})
	s.out = bufio.NewReader(r)
	line, _ := s.out.ReadString('\n')
	if _, err := fmt.Sscan(line, &s.worker, &s.hasMonitor); err != nil {
		t.Fatalf("got %q, want a pid: %v", line, err)
	}
	return s
}

func testBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func TestStartDeletedExecutable(t *testing.T) {
	b, err := os.ReadFile(testBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "upgraded")
	if err := testexec.WriteExecutable(copied, b); err != nil {
		t.Fatal(err)
	}
	s := runSupervisor(t, exec.Command(copied, "delete-me", copied, findProgram(t, "bash"), "-c", "echo hello; exec cat"), "supervise")
	if _, err := os.Stat(copied); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want the file deleted", err)
	}
	if line, _ := s.out.ReadString('\n'); line != "hello\n" || !s.hasMonitor {
		t.Errorf("got %q, has monitor %t, want hello from a monitor", line, s.hasMonitor)
	}
}

func TestStartUnmonitored(t *testing.T) {
	t.Parallel()
	s := runSupervisor(t, exec.Command(testBinary(t), findProgram(t, "bash"), "-c", "echo $PPID; read x; echo got $x; ls /proc/self/fd | wc -w"), "direct")
	line, _ := s.out.ReadString('\n')
	if got := strings.TrimSpace(line); got != strconv.Itoa(s.Process.Pid) || s.hasMonitor {
		t.Errorf("got parent %s, has monitor %t, want %d itself", got, s.hasMonitor, s.Process.Pid)
	}
}

// countResources returns the number of descriptors and goroutines of this process, and its children.
func countResources(t testing.TB) (descriptors, goroutines int, children string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var kids []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		kids = append(kids, string(bytes.TrimSpace(b)))
	}
	return len(entries), runtime.NumGoroutine(), strings.TrimSpace(strings.Join(kids, " "))
}

func TestProcessLeaks(t *testing.T) {
	script := findProgram(t, "bash")
	cycle := func(c *launch.StartConfig) {
		if p, err := launch.Start(c); err == nil {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle(&launch.StartConfig{Path: script}) // creates everything that is created only once
	fds, goroutines, children := countResources(t)
	for range 100 {
		cycle(&launch.StartConfig{Path: script, Args: []string{"-c", "sleep 1000 & sleep 1000"}})
	}
	for range 20 {
		cycle(&launch.StartConfig{Path: "/no/such/program"})
		cycle(&launch.StartConfig{Path: script, Dir: "/no/such/directory"})
	}
	wait.Until(t, "the resources are the same as at the start", func() bool {
		f, g, c := countResources(t)
		return f <= fds && g <= goroutines && c == children
	})
}
