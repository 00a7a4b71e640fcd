//go:build unix

package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

func TestServe(t *testing.T) {
	t.Parallel()

	// A program keeps ignoring the signals that its shell made it ignore. nohup does so with
	// SIGHUP, and a shell without job control with SIGINT and SIGQUIT of background programs.
	t.Run("keeps ignoring signals that were ignored at its start", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		cmd := exec.Command("sh", "-c", `trap '' HUP INT QUIT; exec "$0" serve`, replbin.Path())
		cmd.Env = h.env
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		readUntil(t, errs, "serving at ")
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			wantResult(t, h.runRepl(t, "", "list"), result{"", "no session is open\n", 0}) // it ran long enough to receive the signal
		}
		_ = stopProgram(cmd)
		readUntil(t, errs, `why="ended by signal 15"`)
		_ = cmd.Wait()
		if got := exitStatusOf(t, cmd); got != 143 {
			t.Errorf("it ended with status %d, want 143, the status of SIGTERM", got)
		}
	})

	t.Run("outlives its terminal", func(t *testing.T) {
		t.Parallel()
		for name, commandLine := range map[string]string{
			"nohup":    `nohup "$REPL" serve --log "$TMPDIR/log" >/dev/null 2>&1 &`,
			"--detach": `"$REPL" serve --detach --log "$TMPDIR/log"`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newDaemonHome(t)
				runAndCloseTerminal(t, h, commandLine)
				// The daemon logs earlier events before it answers this request.
				wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "precious"), result{"42\n", "", 0})
				wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
				log, err := os.ReadFile(filepath.Join(h.tmp, "log"))
				if err != nil || !strings.Contains(string(log), `why="stopped by a client"`) {
					t.Errorf("its log: %s, %v", log, err)
				}
			})
		}
	})

	t.Run("detached reports its socket and starts once", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		r := h.runRepl(t, "", "serve", "--detach", "--session-dir", filepath.Join(h.tmp, "of my own"))
		if r.status != 0 || !strings.Contains(r.stderr, "serves at "+h.socket()) || !strings.Contains(r.stderr, "serve.log") {
			t.Fatalf("got %v", r)
		}
		if r := h.runRepl(t, "", "serve", "--detach"); r.status != 3 || !strings.Contains(r.stderr, "already served: by process ") {
			t.Errorf("a second one: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "1"), result{"1\n", newSessionNotice("main"), 0})
		if left, _ := filepath.Glob(filepath.Join(h.tmp, "of my own", "main-*")); len(left) != 1 {
			t.Errorf("the directory of its session is %q", left)
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
	})

	// In a container the home directory is often not writable.
	t.Run("detached serves where no log can be written", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		file := filepath.Join(h.tmp, "a file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "XDG_STATE_HOME="+filepath.Join(file, "state"))
		r := h.runRepl(t, "", "serve", "--detach")
		if r.status != 0 || !strings.Contains(r.stderr, "the daemon runs without a log: ") || !strings.Contains(r.stderr, "its log is "+os.DevNull) {
			t.Fatalf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "1"), result{"1\n", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
	})

	// The directory of the socket is removed at the last logout, with all files by which clients
	// find the daemon.
	t.Run("is found again after its directory was removed", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		first := h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "precious = 42"), result{"", newSessionNotice("main"), 0})
		// The daemon recreates it at once.
		wait.Until(t, "the directory is removed", func() bool { return os.RemoveAll(filepath.Dir(h.socket())) == nil })
		wait.Until(t, "the socket exists again", func() bool { return h.runRepl(t, "", "list").status == 0 })
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "precious"), result{"42\n", "", 0})
		if r := h.runRepl(t, "", "serve"); r.status != 3 || !strings.Contains(r.stderr, "already served") {
			t.Errorf("a second daemon: %v", r)
		}
		_ = stopProgram(first)
		_ = first.Wait()
		if _, err := os.Lstat(h.socket()); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})

	t.Run("reports that the previous daemon was killed", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		first := h.startDaemon(t)
		_ = first.Process.Kill()
		_ = first.Wait()
		second := h.command(t, "serve", "--quiet")
		errs, err := second.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stopProgram(second)
			_ = second.Wait()
		})
		readUntil(t, errs, "previous daemon crashed; run repl recover to see its sessions")
	})

	// The daemon must not keep a lock or a pipe of the caller open.
	t.Run("detached keeps no files of its caller open", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := h.command(t, "serve", "--detach")
		cmd.ExtraFiles = []*os.File{w}
		out, err := cmd.CombinedOutput()
		_ = w.Close()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		defer h.runRepl(t, "", "daemon", "stop")
		if err := r.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("got %d bytes and %v, want the end of the file", n, err)
		}
	})
}

// runAndCloseTerminal runs a command line in an interactive shell, and closes the terminal once a
// session holds a value.
func runAndCloseTerminal(t *testing.T, h home, commandLine string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Env = append(h.env, "PS1=ready>", "REPL="+replbin.Path())
	tty, err := pty.Start(shell)
	if err != nil {
		t.Fatal(err)
	}
	tty = newNonblockingTTY(t, tty)
	defer tty.Close()
	readUntil(t, tty, "ready>")
	if _, err := tty.WriteString(commandLine + "\r"); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { // otherwise the shell would wait for its reader
		defer close(drained)
		_, _ = tty.WriteTo(discardWriter{})
	}()
	wait.Until(t, "the daemon serves", func() bool { return h.runRepl(t, "", "list").status == 0 })
	wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "precious = 42"), result{"", newSessionNotice("main"), 0})
	_ = tty.Close() // as at the end of a login
	_ = shell.Wait()
	<-drained
}

// newNonblockingTTY returns the terminal's other end, which can be closed during a read.
func newNonblockingTTY(t *testing.T, tty *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(tty.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
		err = syscall.SetNonblock(fd, true)
	}
	_ = tty.Close()
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "terminal")
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }
