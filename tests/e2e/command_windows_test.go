package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestProgram_OnWindows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "größer.py")
	if err := os.WriteFile(file, []byte("import sys\nprint('file', sys.argv[1:])\nsys.exit(4)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		out   string
		err   string
		code  int
	}{
		"an expression":     {"", []string{"-e", "print(6 * 7, 'größer')"}, "42 größer\n", "", 0},
		"an error":          {"", []string{"-e", "1/0"}, "", "ZeroDivisionError", 1},
		"an exit":           {"", []string{"-e", "import sys; sys.exit(3)"}, "", "", 3},
		"a file":            {"", []string{file}, "file []", "", 4},
		"a pipe":            {"x = 20\nprint(x * 2)\n", nil, "40\n", "", 0},
		"a child's output":  {"", []string{"-e", "import os; _ = os.system('echo child')"}, "child", "", 0},
		"code":              {"", []string{"-c", "import sys; print(sys.argv, sys.stdout.isatty())", "a b", "-e"}, "['-c', 'a b', '-e'] False\r\n", "", 0},
		"a piped program":   {"import sys; print(sys.argv); sys.exit(5)\n", []string{"-", "x"}, "['-', 'x']\r\n", "", 5},
		"errors of a child": {"", []string{"-c", "import subprocess; subprocess.run('echo e>&2', shell=True)"}, "", "e", 0},
		"input of a child":  {"hello\n", []string{"-c", "import subprocess; subprocess.run(['findstr', 'h'])"}, "hello", "", 0},
		"a file and a pipe": {"Ada\n", []string{"-e", "print('hello', input())"}, "hello Ada\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).runRepl(t, c.stdin, append([]string{"--lang", "python"}, c.args...)...)
			if !strings.Contains(r.stdout, c.out) || !strings.Contains(r.stderr, c.err) || r.status != c.code {
				t.Errorf("got %v; want %q, %q, %d", r, c.out, c.err, c.code)
			}
		})
	}
}

// The children of a program inherit its standard streams, as with python.exe. A terminal would
// neither end their input nor keep their bytes.
func TestProgram_ChildrenOnWindows(t *testing.T) {
	beside := map[string]string{ // here it is unknown when the output of a child is complete
		"set /p": "0\nname?", "more": "0\n\r\n", "among its own": "child\r\nbefore\n",
	}
	const child = "import subprocess, sys; r = subprocess.run([sys.executable, '-c', %q]).returncode"
	for name, c := range map[string]struct{ stdin, code, out string }{
		"no input":        {"", fmt.Sprintf(child, "import sys; print(len(sys.stdin.read()))"), "0\r\n"},
		"input of a pipe": {"hello\n", fmt.Sprintf(child, "import sys; print(len(sys.stdin.read()))"), "6\r\n"},
		"twice":           {"hello\n", "import subprocess, sys; _ = [subprocess.call([sys.executable, '-c', 'import sys; print(len(sys.stdin.read()))']) for i in range(2)]", "6\r\n0\r\n"},
		"pause":           {"", "import subprocess; print(subprocess.call('pause >nul', shell=True))", "0\n"},
		"set /p":          {"", "import subprocess; print(subprocess.call('set /p X=name?', shell=True))", "name?0\n"},
		"findstr":         {"", "import subprocess; print(subprocess.call('findstr x', shell=True))", "1\n"},
		"more":            {"", "import subprocess; print(subprocess.call('more', shell=True))", "\r\n0\n"},
		"a long line":     {"", fmt.Sprintf(child, "print('0123456789' * 30)"), strings.Repeat("0123456789", 30) + "\r\n"},
		"tabs and blanks": {"", fmt.Sprintf(child, "print('a\\tb   ')"), "a\tb   \r\n"},
		"bytes":           {"", fmt.Sprintf(child, "import sys; sys.stdout.buffer.write(bytes([255, 0, 10, 26, 128]))"), "\xff\x00\n\x1a\x80"},
		"among its own":   {"", "print('before'); " + fmt.Sprintf(child, "print('child')") + "", "before\nchild\r\n"},
		"no terminal":     {"", "import sys; print(sys.stdin.isatty(), sys.stdout.isatty())", "False False\n"},
		"at the very end": {"", "import atexit, os; atexit.register(os.write, 1, b'last'); print('first')", "first\nlast"},
		"error output":    {"", fmt.Sprintf(child, "import sys; sys.stderr.write('oops')"), "oops"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).runRepl(t, c.stdin, "--lang", "python", "-e", c.code)
			if r.stdout != c.out && r.stdout != beside[name] {
				t.Errorf("got %v; want %q", r, c.out)
			}
		})
	}
}

// A program without a console, such as pythonw.exe, may start others without standard streams.
func TestProgram_NoStreamsOnWindows(t *testing.T) {
	for name, missing := range map[string]func(*syscall.StartupInfo){
		"input":  func(s *syscall.StartupInfo) { s.StdInput = 0 },
		"output": func(s *syscall.StartupInfo) { s.StdOutput = 0 },
		"all":    func(s *syscall.StartupInfo) { s.StdInput, s.StdOutput, s.StdErr = 0, 0, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			code := fmt.Sprintf("import subprocess, sys; print(1); open(%q, 'w').write(str(subprocess.call([sys.executable, '-c', 'print(2)'])))", filepath.ToSlash(trace))
			if status := runWithStreams(t, missing, "--lang", "python", "-e", code); status != 0 {
				t.Errorf("status %d", status)
			}
			if text, err := os.ReadFile(trace); string(text) != "0" {
				t.Errorf("the code left %q, %v", text, err)
			}
		})
	}
}

// runWithStreams runs the command with changed standard streams, which are otherwise empty.
func runWithStreams(t *testing.T, change func(*syscall.StartupInfo), args ...string) uint32 {
	t.Helper()
	h := newHome(t)
	empty, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	null := syscall.Handle(empty.Fd())
	if err := syscall.SetHandleInformation(null, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT); err != nil {
		t.Fatal(err)
	}
	line, err := syscall.UTF16PtrFromString(windows.ComposeCommandLine(append([]string{replbin.Path()}, args...)))
	if err != nil {
		t.Fatal(err)
	}
	env := utf16.Encode([]rune(strings.Join(h.env, "\x00") + "\x00\x00"))
	s := &syscall.StartupInfo{Flags: syscall.STARTF_USESTDHANDLES, StdInput: null, StdOutput: null, StdErr: null}
	s.Cb = uint32(unsafe.Sizeof(*s))
	change(s)
	var p syscall.ProcessInformation
	if err := syscall.CreateProcess(nil, line, nil, nil, true, syscall.CREATE_UNICODE_ENVIRONMENT, &env[0], nil, s, &p); err != nil {
		t.Fatal(err)
	}
	defer syscall.CloseHandle(p.Process)
	defer syscall.CloseHandle(p.Thread)
	if got, err := syscall.WaitForSingleObject(p.Process, 60_000); got != syscall.WAIT_OBJECT_0 {
		_ = syscall.TerminateProcess(p.Process, 1)
		t.Fatalf("it did not end: %v", err)
	}
	var status uint32
	if err := syscall.GetExitCodeProcess(p.Process, &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// Windows keeps all 32 bits of an exit status, and programs use them.
func TestProgram_ExitStatusOnWindows(t *testing.T) {
	for _, status := range []uint32{256, 3010, 0xc0000005, 0xffffffff} {
		for _, exit := range []string{"sys.exit", "os._exit"} {
			code := fmt.Sprintf("import os, sys; %s(%d)", exit, int32(status))
			for _, option := range []string{"-e", "-c"} {
				if r := newHome(t).runRepl(t, "", "--lang", "python", option, code); uint32(r.status) != status {
					t.Errorf("%s %s: got %d, want %d", option, code, uint32(r.status), status)
				}
			}
		}
	}
}

// newRHome returns a home whose R sees no profile of the user who runs the test.
func newRHome(t *testing.T) home {
	t.Helper()
	if _, _, err := r.Find(r.FindOptions{}); err != nil {
		t.Skipf("R is not installed: scripts/wine --r brings it (%v)", err)
	}
	h := newHome(t)
	h.env = append(h.env, "LC_CTYPE=en_US.UTF-8", "R_PROFILE_USER="+os.DevNull, "R_ENVIRON_USER="+os.DevNull) // necessary because Wine ignores the code page that R requests
	return h
}

func TestR_OnWindows(t *testing.T) {
	h := newRHome(t)
	dir := filepath.Join(t.TempDir(), "größe x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "größer.R")
	if err := os.WriteFile(file, []byte("cat('file', commandArgs(TRUE), '\\n')\nquit(status = 4)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		out   string
		err   string
		code  int
	}{
		"values":             {"", []string{"-e", "6 * 7; 'größer'"}, "[1] 42\n[1] \"größer\"\n", "", 0},
		"an error":           {"", []string{"-e", "stop('no')"}, "", "Error: no\n", 1},
		"an exit":            {"", []string{"-e", "quit(status = 3)"}, "", "", 3},
		"a file":             {"", []string{file, "a", "b c"}, "file a b c ", "", 4},
		"a pipe":             {"x <- 20\nx * 2\n", nil, "[1] 40\n", "", 0},
		"a child's output":   {"", []string{"-e", "invisible(system('cmd /c echo child'))"}, "child", "", 0},
		"a child's input":    {"ab\nc\n", []string{"-e", "invisible(system('cmd /c findstr b'))"}, "ab", "", 0},
		"an R that is named": {"", []string{"--r", "4", "-e", "R.version$os"}, "mingw32", "", 0},
		"no such R":          {"", []string{"--r", "3.6", "-e", "1"}, "", "named 3.6", 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := h.runRepl(t, c.stdin, append([]string{"--lang", "r"}, c.args...)...)
			if !strings.Contains(got.stdout, c.out) || !strings.Contains(got.stderr, c.err) || got.status != c.code {
				t.Errorf("got %v; want %q, %q, %d", got, c.out, c.err, c.code)
			}
		})
	}
}

func TestDoctor_ROnWindows(t *testing.T) {
	got := newRHome(t).runRepl(t, "", "doctor", "--lang", "r")
	for _, want := range []string{"Rterm.exe", "ok      the runtime starts", "ok      an interrupt reaches a loop", "ok      all processes exit"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in %v", want, got)
		}
	}
}

func TestMCP_OnWindows(t *testing.T) {
	runMCPCalls(t, newHome(t), "python", [][2]string{
		{"6*7", "42"},
		{"name = input('name? ')", "waiting for input"},
		{"Ada", ""},
		{"name", "Ada"},
	})
}

func TestMCP_ROnWindows(t *testing.T) {
	runMCPCalls(t, newRHome(t), "r", [][2]string{
		{"6*7", "42"},
		{"name <- readline('name? ')", "waiting for input"},
		{"Ada", ""},
		{"name; 'größer'", "größer"},
		{"plot(1:10)", `"mimeType":"image/png"`},
		{"file.choose()", "waiting for input"},
		{"a.csv", "a.csv"},
		{"?mean", "Arithmetic Mean"},
	})
}

// runMCPCalls makes repl mcp answer one call after the other.
func runMCPCalls(t *testing.T, h home, language string, calls [][2]string) {
	t.Helper()
	cmd := h.command(t, "mcp", "--lang", language)
	a := startMCPClient(t, cmd, func() {
		stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		t.Cleanup(func() { stuck.Stop() })
	})
	for _, c := range calls {
		got := string(a.request("tools/call", map[string]any{"name": "repl", "arguments": map[string]any{"input": c[0]}}))
		if !strings.Contains(got, c[1]) || strings.Contains(got, `"isError":true`) {
			t.Errorf("%q: got %s, want %q in it", c[0], got, c[1])
		}
	}
	if err := a.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of its input: %v", err)
	}
}
