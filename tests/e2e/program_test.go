//go:build unix

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

func TestProgram(t *testing.T) {
	t.Parallel()

	t.Run("returns the output and the status of the code", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		t.Cleanup(func() { h.wantNothingLeft(t) })
		tests := []struct {
			name, code string
			want       result
		}{
			{"both streams", "import sys\nprint('out')\nprint('err', file=sys.stderr)", result{"out\n", "err\n", 0}},
			{"raw bytes", `import sys; _ = sys.stdout.buffer.write(b"\x00\xff\r\n\x1b[1m")`, result{"\x00\xff\r\n\x1b[1m", "", 0}},
			{"no newline at the end", `print("x", end="")`, result{"x", "", 0}},
			{"a child's output, in order", "import os\nprint(1)\n_ = os.system('echo 2')\nprint(3)", result{"1\n2\n3\n", "", 0}},
			{"exit handlers", "import atexit\natexit.register(print, 'bye')\nprint('hi')", result{"hi\nbye\n", "", 0}},
			{"threads are joined", "import threading, time\nthreading.Thread(target=lambda: (time.sleep(1.2), print('late'))).start()", result{"late\n", "", 0}},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				wantResult(t, h.runRepl(t, "", "--lang", "python", "-e", test.code), test.want)
			})
		}
	})

	// The command reports a project setting that it cannot use in one line, and runs the code.
	t.Run("reports that the project's Python is not used", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		bin := filepath.Join(h.dir, ".venv", "bin")
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/nowhere/python3", filepath.Join(bin, "python")); err != nil {
			t.Fatal(err)
		}
		got := h.runRepl(t, "", "-e", "6 * 7")
		if got.status != 0 || got.stdout != "42\n" || strings.Count(got.stderr, "\n") != 1 ||
			!strings.HasPrefix(got.stderr, "repl: this is /") || !strings.Contains(got.stderr, ", not .venv in ") || !strings.Contains(got.stderr, "broken link to /nowhere/python3") {
			t.Errorf("got %v", got)
		}
		a := h.newMCPClient(t)
		if got := a.callRepl("6 * 7"); !strings.HasPrefix(got, "[this is /") || !strings.HasSuffix(got, "]\n42") {
			t.Errorf("the first reply is %q", got)
		}
		if got := a.callRepl("6 * 7"); got != "42" {
			t.Errorf("the second reply is %q", got)
		}
	})

	t.Run("reads standard input of repl", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		tests := []struct {
			name, code, stdin, want string
		}{
			{"lines", "print(input('a? ') + input('b? '))", "x\ny\n", "a? b? xy\n"},
			{"no line end at the end", "print(input(), input())", "x\ny", "x y\n"},
			{"the end", "import sys\nprint(len(sys.stdin.read()), sys.stdin.readline() == '')", strings.Repeat("line\n", 100_000), "500000 True\n"},
			{"iteration", "import sys\nprint(sum(map(int, sys.stdin)))", "1\n2\n3\n", "6\n"},
			{"bytes", "import sys\nprint(sys.stdin.buffer.read())", "\xff\x00\n", "b'\\xff\\x00\\n'\n"},
			{"a secret", "import getpass\nprint(getpass.getpass('? '))", "hunter2\n", "? \nhunter2\n"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				wantResult(t, h.runRepl(t, test.stdin, "-e", test.code), result{test.want, "", 0})
			})
		}
	})

	t.Run("a file runs as a separate program", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		path := filepath.Join(h.dir, `odd "name" ü.py`)
		code := "#!/usr/bin/env python\nimport sys, neighbour\nprint(__name__, __file__ == sys.argv[0], sys.argv[1:], input())\n'not shown'\n"
		for name, text := range map[string]string{path: code, filepath.Join(h.dir, "neighbour.py"): ""} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := h.runRepl(t, "line\n", path, "--flag", `a "b"`, "\xff")
		wantResult(t, got, result{`__main__ True ['--flag', 'a "b"', '\udcff'] line` + "\n", "", 0})

		bad := filepath.Join(h.dir, "bad.py")
		if err := os.WriteFile(bad, []byte("def f():\n    1/0\nf()\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.runRepl(t, "", "bad.py"); got.status != 1 || !strings.Contains(got.stderr, bad+`", line 2, in f`) {
			t.Errorf("got %v, want status 1 and a traceback into the file", got)
		}
	})

	// The terminal, its keys and its signals belong to the program, with nothing in between.
	t.Run("has the terminal to itself", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		code := `import os, signal, sys, time
met = []
def say(text): os.write(1, text.encode()) # a handler must not print while the program does
def meet(*_):
    met.append(1)
    say("met %d\n" % len(met))
signal.signal(signal.SIGINT, meet)
signal.signal(signal.SIGCONT, lambda *_: say("goes on\n"))
say("%s %s\n" % ([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)], os.getpgrp() == os.getpid() == os.tcgetpgrp(0)))
while len(met) < 3: time.sleep(.01)
raise SystemExit(7)
`
		if err := os.WriteFile(filepath.Join(h.dir, "keys.py"), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "PS1=$ ")
		p := h.startProgram(t, exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(replbin.Path() + " keys.py")
		p.waitText("[True, True, True] True\r\n")
		p.typeKeys(ctrlC)
		p.waitText("met 1\r\n")
		p.typeKeys(ctrlC)
		p.waitText("met 2\r\n")
		p.typeKeys("\x1a")
		p.waitText("Stopped")
		p.waitText("$ ")
		p.enterLine("fg")
		p.waitText("goes on\r\n")
		p.typeKeys(ctrlC)
		p.waitText("met 3\r\n")
		p.waitText("$ ")
		p.enterLine("echo status $?")
		p.waitText("status 7\r\n")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})

	t.Run("large output arrives whole", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		got := h.runRepl(t, "", "-e", "for i in range(200_000): print(i, 'a line of output')")
		lines := strings.SplitAfter(got.stdout, "\n")
		if got.status != 0 || got.stderr != "" || len(lines) != 200_001 || lines[199_999] != "199999 a line of output\n" {
			t.Errorf("got status %d, %d lines, the last one %q, and errors %q", got.status, len(lines), lines[max(0, len(lines)-2)], got.stderr)
		}
	})
}

func TestMCP_InitFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for name, text := range map[string]string{"init.py": "import os\nx = int(os.environ['N']) + 1\n", ".env": "N=1\n"} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := h.newMCPClient(t, "--init", "init.py", "--env-file", ".env")
	if got := a.callRepl("x"); !strings.HasSuffix(got, "2") {
		t.Errorf("an agent gets %q", got)
	}
	a.callTool("repl_reset", map[string]any{})
	if got := a.callRepl("x"); !strings.HasSuffix(got, "2") {
		t.Errorf("after a reset an agent gets %q", got)
	}
}

// writeBrokenPython writes a program that can be named as an interpreter but is not one.
func (h home) writeBrokenPython(t *testing.T) string {
	t.Helper()
	path := filepath.Join(h.dir, "python3")
	if err := testexec.WriteExecutable(path, []byte("#!/bin/sh\necho no >&2\nexit 3\n")); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramSignals(t *testing.T) {
	t.Parallel()

	t.Run("an interrupt reaches the program", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		tests := []struct {
			name, code, after string
			status            int
		}{
			{"an unhandled interrupt", "print('on', flush=True)\nwhile True: pass", "", 130},
			{"one that is handled", "try:\n  print('on', flush=True)\n  while True: pass\nexcept KeyboardInterrupt: print('caught')", "caught\n", 0},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				cmd := h.command(t, "-e", test.code)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				var stderr strings.Builder
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				readUntil(t, out, "on\n")
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				if test.after != "" {
					readUntil(t, out, test.after)
				}
				_ = cmd.Wait()
				if got := exitStatusOf(t, cmd); got != test.status {
					t.Errorf("got status %d, want %d; %s", got, test.status, stderr.String())
				}
				if said := strings.Contains(stderr.String(), "KeyboardInterrupt"); said != (test.after == "") {
					t.Errorf("standard error is %q", stderr.String())
				}
			})
		}
		h.wantNothingLeft(t)
	})

	t.Run("a signal that ends repl ends everything", func(t *testing.T) {
		t.Parallel()
		code := `import os, subprocess
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(os.getpid(), os.getppid(), child.pid, "on", flush=True)
import time; time.sleep(1000)`
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL} {
			t.Run(sig.String(), func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				cmd := h.command(t, "-e", code)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				var worker, stage, child int
				if _, err := fmt.Sscan(readUntil(t, out, "on\n"), &worker, &stage, &child); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got := exitStatusOf(t, cmd); got != 128+int(sig) {
					t.Errorf("got status %d, want %d", got, 128+int(sig))
				}
				for _, pid := range []int{worker, stage, child} {
					waitGone(t, pid)
				}
				if sig != syscall.SIGKILL { // after SIGKILL no process can remove files
					h.wantNothingLeft(t)
				}
			})
		}
	})

	t.Run("a signal is not the end of its input", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		cmd := h.command(t, "-e", "import sys\nprint('on', flush=True)\nn = len(sys.stdin.read())\nprint('all of', n)")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "a part\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, "on\n")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		_ = cmd.Wait()
		if got := exitStatusOf(t, cmd); got != 128+int(syscall.SIGTERM) || strings.Contains(string(rest), "all of") {
			t.Errorf("got status %d, output %q: the program took a part of the input for all of it", got, rest)
		}
		h.wantNothingLeft(t)
	})

	t.Run("a broken pipe ends the program", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		cmd := h.command(t, "-e", "print('on', flush=True)\nwhile True: print('y')")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, "on\n")
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := exitStatusOf(t, cmd); got != 128+int(syscall.SIGPIPE) {
			t.Errorf("got status %d, want %d", got, 128+int(syscall.SIGPIPE))
		}
		h.wantNothingLeft(t)
	})

	t.Run("output that cannot be written is an error of repl", func(t *testing.T) {
		t.Parallel()
		const full = "/dev/full" // every write fails
		if _, err := os.Stat(full); err != nil {
			t.Skip(err)
		}
		for name, code := range map[string]string{
			"at its end":    "print(1)",
			"while it runs": "while True: print(1)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				out, err := os.OpenFile(full, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cmd := h.command(t, "-e", code)
				var said strings.Builder
				cmd.Stdout, cmd.Stderr = out, &said
				_ = cmd.Run()
				wantResult(t, result{"", said.String(), exitStatusOf(t, cmd)},
					result{"", "repl: cannot write the program's output: write /dev/stdout: no space left on device\n", 1})
				h.wantNothingLeft(t)
			})
		}
	})

	t.Run("a broken pipe at the end of the program is reported as well", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		unread, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = unread.Close()
		defer out.Close()
		cmd := h.command(t, "-e", "print(1)")
		cmd.Stdout = out
		_ = cmd.Run()
		if got := exitStatusOf(t, cmd); got != 128+int(syscall.SIGPIPE) {
			t.Errorf("got status %d, want %d", got, 128+int(syscall.SIGPIPE))
		}
	})
}
