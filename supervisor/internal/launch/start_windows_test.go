package launch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

func TestStart_Windows(t *testing.T) {
	t.Run("a failed step is named, with advice", func(t *testing.T) {
		dir := t.TempDir()
		garbage := filepath.Join(dir, "garbage.exe")
		if err := os.WriteFile(garbage, []byte("no program"), 0o644); err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(dir, "missing.exe")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name    string
			command launch.StartConfig
			step    string
			path    string
			cause   error
			advice  string
		}{
			{"missing directory", launch.StartConfig{Path: self, Dir: missing}, "chdir", missing, fs.ErrNotExist, "create the directory"},
			{"directory that is a file", launch.StartConfig{Path: self, Dir: garbage}, "chdir", garbage, windows.ERROR_DIRECTORY, "create the directory"},
			{"missing program", launch.StartConfig{Path: missing}, "exec", missing, fs.ErrNotExist, "install it"},
			{"file in no known format", launch.StartConfig{Path: garbage}, "exec", garbage, windows.ERROR_BAD_EXE_FORMAT, "program for this system"},
			{"environment with a zero byte", launch.StartConfig{Path: self, Env: []string{"A=\x00"}}, "environment", "", nil, "remove it"},
			{"terminal without columns", launch.StartConfig{Path: self, Size: pty.TerminalSize{Rows: 1}}, "terminal", "", nil, "CreatePseudoConsole"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p, err := launch.Start(&c.command)
				if err == nil {
					p.Close()
					t.Fatal("got a process, want an error")
				}
				e, ok := errors.AsType[*monitorproto.StartError](err)
				if !ok || e.Step != c.step || e.Path != c.path || c.cause != nil && !errors.Is(err, c.cause) {
					t.Errorf("got %#v, want step %q, path %q, cause %v", err, c.step, c.path, c.cause)
				}
				for _, want := range []string{"launch: start: " + c.step, c.advice} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %q, want %q in it", err, want)
					}
				}
			})
		}
	})

	t.Run("reports a monitor that ends early or hangs", func(t *testing.T) {
		for name, want := range map[string]string{
			earlyExitProgram: "it ended before its first command",
			hangingProgram:   "it did not connect in time",
		} {
			t.Run(name, func(t *testing.T) {
				cmd := exec.Command(copyTestBinary(t, name))
				cmd.Env = append(os.Environ(), roleEnv+"=impatient")
				out, err := cmd.CombinedOutput()
				if text := string(out); err != nil || !strings.HasPrefix(text, "launch: start: monitor: "+want) || !strings.Contains(text, "MonitorMain") {
					t.Errorf("got %q, %v, want %q", text, err, want)
				}
			})
		}
	})

	t.Run("names the step in which the monitor hangs", func(t *testing.T) {
		err := launch.StartWithHungMonitor("exec", `C:\slow.exe`)
		e, ok := errors.AsType[*monitorproto.StartError](err)
		if !ok || e.Step != "exec" || e.Path != `C:\slow.exe` || !strings.Contains(err.Error(), "StartTimeout") {
			t.Errorf("got %v, want the step, its path, and a hint", err)
		}
	})

	t.Run("the job ends with its last handle, without breakaway", func(t *testing.T) {
		const always = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
		for memory, flags := range map[int64]uint32{0: always, 512 << 20: always | windows.JOB_OBJECT_LIMIT_JOB_MEMORY} {
			limits := launch.NewJobLimits(proctree.ProcessLimits{Memory: memory})
			if !testexec.IsWine() { // Wine does not show the arguments
				c := newRoleCommand("forever")
				c.Limits.Memory = memory
				limits = launch.JobLimits(startCommand(t, c).WorkerProcess)
			}
			if got := limits.BasicLimitInformation.LimitFlags; got != flags || limits.JobMemoryLimit != uintptr(memory) {
				t.Errorf("got flags %#x and %d bytes, want %#x and %d", got, limits.JobMemoryLimit, flags, memory)
			}
		}
	})

	t.Run("a worker runs under a memory limit", func(t *testing.T) {
		c := newRoleCommand("read")
		c.Limits.Memory = 512 << 20
		startCommand(t, c).waitLine(t, "ready")
	})
}

// copyTestBinary copies this program to a name under which it misbehaves as a monitor.
func copyTestBinary(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExit_Windows(t *testing.T) {
	t.Run("reports that the memory limit was reached", func(t *testing.T) {
		if testexec.IsWine() {
			t.Skip("Wine's jobs do not count memory")
		}
		c := newRoleCommand("allocate")
		c.Limits.Memory = 512 << 20
		w := startCommand(t, c)
		waitClosed(t, "exit", w.Exited())
		if got := w.Exit(); got.MemoryLimit != c.Limits.Memory || got.Code == 0 {
			t.Errorf("got %+v, want the limit and a failure", got)
		}
	})

	t.Run("names the status", func(t *testing.T) {
		for code, want := range map[string]string{
			"0":          "exit status 0",
			"3":          "exit status 3",
			"255":        "exit status 255",
			"0xC0000005": "exit status 0xc0000005 (access violation)",
			"0xC000013A": "exit status 0xc000013a (interrupted)",
			"0xC0001234": "exit status 0xc0001234",
		} {
			w := startRole(t, "exit", code)
			waitClosed(t, "exit", w.Exited())
			if got := w.Exit().String(); got != want {
				t.Errorf("%s: got %q, want %q", code, got, want)
			}
		}
	})

	t.Run("reports the peak memory", func(t *testing.T) {
		if testexec.IsWine() {
			t.Skip("Wine's jobs do not count memory")
		}
		w := startRole(t, "exit", "0")
		waitClosed(t, "exit", w.Exited())
		if got := w.Exit().PeakRSS; got < 100<<10 {
			t.Errorf("got a peak of %d bytes, want a program's", got)
		}
	})
}

func TestWorker_Windows(t *testing.T) {
	t.Run("all output before the end is read", func(t *testing.T) {
		const count = 500
		w := startRole(t, "lines", fmt.Sprint(count))
		text := w.waitAll(t)
		for i := range count {
			if line := fmt.Sprintf("line %d\n", i); !strings.Contains(text, line) {
				t.Fatalf("got no %q in %d bytes", line, len(text))
			}
		}
		if !strings.Contains(text, "to stderr: größer") {
			t.Errorf("got %q at the end, want standard error in UTF-8", text[max(0, len(text)-100):])
		}
	})

	t.Run("runs in its directory with its environment", func(t *testing.T) {
		c := newRoleCommand("where")
		c.Dir = t.TempDir()
		c.Env = append(c.Env, "Path=first", "path=last", "second=x", "SECOND=größer")
		text := startCommand(t, c).waitAll(t)
		for _, want := range []string{"in " + c.Dir + " <nil>\n", "PATH = last\n", "Second = größer\n", "SYSTEMROOT = " + os.Getenv("SYSTEMROOT")} {
			if !strings.Contains(text, want) {
				t.Errorf("got %q, want %q in it", text, want)
			}
		}
	})

	// cmd.exe, which runs batch files, interprets parts of their arguments if they are not quoted.
	t.Run("a batch file gets its arguments unchanged", func(t *testing.T) {
		words := []string{"a", "", "b c", "https://h/?a=1&b=2", "p|q<r>s^t(u)", `say "hi"`, `"a&b"`, "%PATH%", "50%", "!x!", `b c\`, "größe"}
		c := newRoleCommand("words", words...)
		file := filepath.Join(t.TempDir(), "x & y.cmd")
		if err := os.WriteFile(file, []byte("@\""+c.Path+"\" %*\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Path = file
		if got, want := startCommand(t, c).waitLine(t, "words "), fmt.Sprintf("%q", words); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("inherits no handle of the supervisor", func(t *testing.T) {
		var r, wr windows.Handle
		sa := windows.SecurityAttributes{Length: 24, InheritHandle: 1}
		if err := windows.CreatePipe(&r, &wr, &sa, 0); err != nil {
			t.Fatal(err)
		}
		defer windows.CloseHandle(r)
		defer windows.CloseHandle(wr)
		if got := startRole(t, "handle", fmt.Sprint(uint64(r))).waitLine(t, "handle:"); strings.HasPrefix(got, "3") {
			t.Errorf("got %q for a pipe of the supervisor, want an invalid handle", got)
		}
	})
}

func TestChannel_Windows(t *testing.T) {
	t.Run("carries data in both directions", func(t *testing.T) {
		w := startRole(t, "answer")
		if _, err := w.Channel().Write([]byte(" hello")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := w.Channel().Read(b)
		if got, want := string(b[:n]), w.Nonce()+" hello"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})

	t.Run("rejects processes outside the job", func(t *testing.T) {
		w := startRole(t, "late")
		name := w.waitLine(t, "pipe ")
		stranger, err := os.OpenFile(name, os.O_RDONLY, 0) // this process is outside the job
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		if n, err := stranger.Read(make([]byte, 1)); err == nil {
			t.Errorf("a process outside the job read %d bytes, want an error", n)
		}
		if err := w.Terminal().WriteInput([]byte("now\n"), false); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Channel().Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := w.Channel().Read(b); err != nil || string(b[:n]) != w.Nonce()+"x" {
			t.Errorf("got %q, %v, want a connection of the worker", b[:n], err)
		}
	})

	t.Run("gives access to its user only", func(t *testing.T) {
		w := startRole(t, "forever")
		sd, err := windows.GetSecurityInfo(launch.PipeHandle(w.WorkerProcess), windows.SE_KERNEL_OBJECT,
			windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		user, err := windows.GetCurrentProcessToken().GetTokenUser()
		if err != nil {
			t.Fatal(err)
		}
		acl, _, err := sd.DACL()
		if err != nil {
			t.Fatal(err)
		}
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(acl, 0, &ace); err != nil {
			t.Fatal(err)
		}
		who := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if acl.AceCount != 1 || ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || !who.Equals(user.User.Sid) {
			t.Errorf("got %s, want one entry, for %s", sd, user.User.Sid)
		}
	})

	t.Run("reads end of file if the worker never connected", func(t *testing.T) {
		w := startRole(t, "exit", "0")
		if n, err := w.Channel().Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("got %d, %v, want end of file", n, err)
		}
	})
}

func TestSignal_Windows(t *testing.T) {
	t.Run("a group interrupt reaches every process on the console only", func(t *testing.T) {
		ours := make(chan os.Signal, 1)
		signal.Notify(ours, os.Interrupt)
		defer signal.Stop(ours)
		w := startRole(t, "parent")
		w.waitLine(t, "parent ready")
		w.waitLine(t, "ready")
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Group); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "parent interrupted")
		w.waitLine(t, "interrupted")
		select {
		case <-ours:
			t.Error("the supervisor got the interrupt, too")
		default:
		}
	})

	t.Run("an interrupt wakes a worker that waits for its event", func(t *testing.T) {
		w := startRole(t, "awake")
		w.waitLine(t, "ready <nil>")
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "woken")
	})

	// The event takes effect at once, while CTRL_C is a thread that starts later. The first repetition
	// is CTRL_C, for code that knows nothing else.
	t.Run("a group interrupt of a lone worker uses its event first", func(t *testing.T) {
		w := startRole(t, "awake")
		w.waitLine(t, "ready <nil>")
		for _, s := range []struct {
			to   monitorproto.Target
			want string
		}{{monitorproto.Group, "woken"}, {monitorproto.Worker, "CTRL_C"}, {monitorproto.Worker, "woken"}} {
			if err := w.Signal(monitorproto.Interrupt, s.to); err != nil {
				t.Fatal(err)
			}
			w.waitLine(t, s.want)
		}
	})

	t.Run("an interrupt uses the console if the worker does not wait", func(t *testing.T) {
		w := startRole(t, "interrupted")
		w.waitLine(t, "ready")
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "interrupted")
	})

	t.Run("returns ErrUnsupported for SIGHUP and SIGTERM", func(t *testing.T) {
		w := startRole(t, "forever")
		for _, sig := range []monitorproto.Signal{monitorproto.Hangup, monitorproto.Terminate} {
			if err := w.Signal(sig, monitorproto.Group); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: got %v, want ErrUnsupported", sig, err)
			}
		}
	})

	t.Run("returns ErrEnded after the end", func(t *testing.T) {
		w := startRole(t, "exit", "0")
		waitClosed(t, "exit", w.Exited())
		for _, to := range []monitorproto.Target{monitorproto.Worker, monitorproto.Group, monitorproto.Foreground} {
			if err := w.Signal(monitorproto.Kill, to); !errors.Is(err, monitorproto.ErrEnded) {
				t.Errorf("%s: got %v, want ErrEnded", to, err)
			}
		}
	})

	t.Run("reports the status of a killed worker", func(t *testing.T) {
		w := startRole(t, "forever")
		if err := w.Signal(monitorproto.Kill, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, "exit", w.Exited())
		if got := w.Exit().String(); got != "exit status 1" {
			t.Errorf("got %q, want exit status 1", got)
		}
	})
}

func TestTerminal_Windows(t *testing.T) {
	t.Run("a console reader gets the input", func(t *testing.T) {
		w := startRole(t, "read")
		w.waitLine(t, "ready")
		if err := w.Terminal().WriteInput([]byte("größer\n"), false); err != nil {
			t.Fatal(err)
		}
		if got := w.waitLine(t, "read "); got != `"größer"` {
			t.Errorf("got %s, want the input line", got)
		}
		if err := w.Terminal().WriteInput(nil, true); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "end of input")
	})

	t.Run("Restore resets modes and code pages", func(t *testing.T) {
		w := startRole(t, "modes")
		if got := w.waitLine(t, "before "); got != "<nil> 0" {
			t.Errorf("got %q, want no echo", got)
		}
		w.waitLine(t, "changed")
		if err := w.Terminal().Restore(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Channel().Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := w.waitLine(t, "after "); got != "<nil> true" {
			t.Errorf("got %q, want the original modes", got)
		}
		if got := w.waitLine(t, "code pages "); got != "65001 65001" {
			t.Errorf("got the code pages %s, want UTF-8", got)
		}
	})

	t.Run("can be resized", func(t *testing.T) {
		if testexec.IsWine() {
			t.Skip("Wine's ResizePseudoConsole is not implemented")
		}
		w := startRole(t, "forever")
		if err := w.Terminal().Resize(pty.TerminalSize{Rows: 30, Cols: 100}); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryBytes_Windows(t *testing.T) {
	w := startRole(t, "read")
	w.waitLine(t, "ready")
	if got := w.MemoryBytes(); got < 100<<10 || got > 1<<30 {
		t.Errorf("got %d bytes, want those of a program", got)
	}
}
