//go:build unix

package e2e

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// An exitWork is work that a runtime does when it exits: it reports its start, and continues when a
// file exists.
type exitWork struct {
	lang, code        string
	interruptedStatus int // the status after Ctrl-C
}

const (
	waitInPython = "f = None\nimport os, time\ndef wait():\n    print('star' + 'ted', flush=True)\n    while not os.path.exists('go'): time.sleep(.01)\n    print('do' + 'ne')\n"
	waitInR      = "wait <- function(...) { cat('star', 'ted\\n', sep = ''); while (!file.exists('go')) Sys.sleep(.01); cat('do', 'ne\\n', sep = '') }\n"
)

var exitWorks = map[string]exitWork{
	"exit handlers":   {"python", waitInPython + "import atexit; _ = atexit.register(wait)", 0},
	"threads":         {"python", waitInPython + "import threading\nmain = threading.main_thread()\ndef last():\n    while main.is_alive(): time.sleep(.01)\n    wait()\nthreading.Thread(target=last).start()", 0},
	"finalizers":      {"python", waitInPython + "class F:\n    def __del__(self, wait=wait): wait()\nf = F()", 130},
	".Last of R":      {"r", waitInR + ".Last <- wait", 0},
	"finalizers of R": {"r", waitInR + "invisible(reg.finalizer(globalenv(), wait, onexit = TRUE))", 0},
}

func (e exitWork) newHome(t *testing.T) home {
	t.Helper()
	if e.lang == "r" {
		return newRHome(t)
	}
	return newHome(t)
}

// writeGoFile creates the file that exit work waits for.
func (h home) writeGoFile(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalEnd(t *testing.T) {
	t.Parallel()
	for name, e := range exitWorks {
		leave := func(t *testing.T) (home, *terminalUser) {
			t.Helper()
			h := e.newHome(t)
			p := h.startTerminal(t, "--lang", e.lang)
			p.waitText("Ctrl-D ends.")
			p.waitText("> ")
			p.typeKeys("\x1b[200~" + e.code + "\x1b[201~\r")
			p.waitOnScreen("> ")
			p.typeKeys(ctrlD)
			p.waitText("started\r\n")
			return h, p
		}
		t.Run("by Ctrl-D shows and waits for "+name, func(t *testing.T) {
			t.Parallel()
			h, p := leave(t)
			h.writeGoFile(t)
			p.waitText("done\r\n")
			p.waitExit(0)
			h.wantNothingLeft(t)
		})
		t.Run("by Ctrl-D is cut by Ctrl-C in "+name, func(t *testing.T) {
			t.Parallel()
			h, p := leave(t)
			p.typeKeys(ctrlC)
			p.waitText("^C")
			p.waitExit(e.interruptedStatus)
			if strings.Contains(p.raw, "turnstone_worker") {
				t.Errorf("the user sees the worker: %q", p.raw)
			}
			h.wantNothingLeft(t)
		})
	}
	t.Run("by Ctrl-D does not depend on names of the code", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("SystemExit = exit = 5")
		p.waitText(">>> ")
		p.enterLine("exit")
		p.waitText("\r\n5\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		if strings.Contains(p.raw, "Error") {
			t.Errorf("the terminal shows %q", p.raw)
		}
	})
}

// A script, npx and make start a program in their process group, and wait for it.
func TestTerminal_CtrlZ(t *testing.T) {
	t.Parallel()
	t.Run("stops the group of a program that has started repl", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		h.env = append(h.env, "PS1=$ ", "REPL="+replbin.Path())
		p := h.startProgram(t, exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(`sh -c '"$REPL"; echo wrapper en''d'`)
		p.waitText("Ctrl-D ends.")
		p.waitText(">>> ")
		p.typeKeys("\x1a")
		p.waitText("Stopped")
		p.waitText("$ ")
		p.enterLine("echo al''ive; fg")
		p.waitText("alive\r\n")
		p.waitText(">>> ")
		p.enterLine("6 * 7")
		p.waitText("\r\n42\r\n")
		p.typeKeys(ctrlD)
		p.waitText("wrapper end")
		p.waitText("$ ")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})
	t.Run("of a parent program leaves the keys to repl", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		h.env = append(h.env, "PS1=$ ", "REPL="+replbin.Path())
		p := h.startProgram(t, exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(`sh -c 'echo "pid $$ of repl"; exec "$REPL"'`)
		p.waitText("pid ")
		pid, err := strconv.Atoi(p.waitText(" of repl"))
		if err != nil {
			t.Fatal(err)
		}
		p.waitText(">>> ")
		p.enterLine("'mar' + 'ker'")
		p.waitText("'marker'")
		p.waitText(">>> ")
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		p.waitText("Stopped")
		p.waitText("$ ")
		p.enterLine("fg")
		p.waitText(">>> ")
		p.typeKeys(keyUp) // a terminal that edits lines would drop it
		p.waitOnScreen("'mar' + 'ker'")
		p.typeKeys("\r")
		p.waitText("'marker'")
		p.typeKeys(ctrlD)
		p.waitText("$ ")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})
	t.Run("does nothing where no shell could continue it", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("6 * \x1a7\r")
		p.waitText("\r\n42\r\n")
		if strings.Contains(p.raw, "\x1b[?2004l") {
			t.Errorf("the terminal left its mode: %q", p.raw)
		}
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})
}

func TestProgramFile(t *testing.T) {
	t.Parallel()

	// python3 is the reference for the error output of a program.
	t.Run("errors match the errors of python", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "NO_COLOR=1")
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("python3 is not installed")
		}
		for name, text := range map[string]string{
			"error.py":  "def f():\n    1/0\nf()\n",
			"syntax.py": "x = (1,\n",
			"stack.py":  "import traceback, inspect, sys\ndef f():\n    traceback.print_stack()\n    print(len(inspect.stack()))\nf()\ntry: 1/0\nexcept Exception: traceback.print_exc()\nsys._getframe(9)\n",
		} {
			if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"error.py"}, {"syntax.py"}, {"stack.py"}, {"-c", "x = ("}, {"-m", "error"}, {"-m", "no_such_module"}} {
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				cmd := h.command(t)
				cmd.Path, cmd.Args = python, append([]string{"python3"}, args...)
				var stderr strings.Builder
				cmd.Stderr = &stderr
				stdout, _ := cmd.Output()
				wantResult(t, h.runRepl(t, "", append([]string{"--python", python}, args...)...), result{string(stdout), stderr.String(), exitStatusOf(t, cmd)})
			})
		}
	})

	t.Run("the extension chooses the language", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		for name, text := range map[string]string{"s.R": "cat(R.version$language)\n", "s.r": "cat(1 %in% 1)\n", "s.py": "print('py')\n", "s": "print('py')\n", "r.txt": "print(1)\n"} {
			if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, wanted := range map[string]string{"s.R": "R", "s.r": "TRUE", "s.py": "py\n", "s": "py\n", "r.txt": "1\n"} {
			wantResult(t, h.runRepl(t, "", name), result{wanted, "", 0})
		}
		wantResult(t, h.runRepl(t, "", "--lang", "r", "r.txt"), result{"[1] 1\n", "", 0})
	})

	t.Run("runs what python runs", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "NO_COLOR=1")
		python := realPython(t)
		main := "import sys\nprint(__name__, sys.argv[1:], sys.path[0] == sys.argv[0])\n"
		var archive bytes.Buffer
		archive.WriteString("#!/usr/bin/env python3\n")
		z := zip.NewWriter(&archive)
		z.SetOffset(int64(archive.Len()))
		f, err := z.Create("__main__.py")
		if err == nil {
			_, err = f.Write([]byte(main))
		}
		if err := errors.Join(err, z.Close(), os.Mkdir(filepath.Join(h.dir, "dir"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"dir/__main__.py": main, "app.pyz": archive.String(),
			"beside.py": "", "chdir.py": "import os\nos.chdir('/')\nimport beside, sys\nprint(len(sys.path[0]) > 1)\n",
			"again.py": "import os, sys\nif os.environ.get('AGAIN'): print(sys.argv[1:]); sys.exit(5)\nos.environ['AGAIN'] = '1'\nos.execv(sys.executable, [sys.executable] + sys.orig_argv[1:])\n",
			"few.py":   "import sys\ndef f(): g()\ndef g(): 1/0\nsys.tracebacklimit = 1\nf()\n",
			"bom.py":   "\ufeffprint('bom')\n", "crlf.py": "if 1:\r\n    print('crlf')\r\n", "latin.py": "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
		} {
			if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		inBoth := map[string]string{ // in a separate process, and in a session
			"a directory":            `"$0" dir a -b`,
			"a zip file":             `"$0" app.pyz a -b`,
			"a byte order mark":      `"$0" bom.py`,
			"line ends of Windows":   `"$0" crlf.py`,
			"another encoding":       `"$0" latin.py`,
			"a pipe":                 `mkfifo "$$.pipe"; echo 'print("pipe")' > "$$.pipe" & "$0" "$$.pipe"`,
			"a descriptor":           `"$0" /dev/fd/3 3<bom.py; "$0" /dev/fd/3 3<latin.py; "$0" - <latin.py; "$0" - x <bom.py`,
			"a module's error":       `"$0" -m no_such_module`,
			"a link":                 `mkdir -p links; ln -sf ../chdir.py links/chdir.py; "$0" links/chdir.py`,
			"a module that leaves":   `"$0" -m chdir`,
			"compiled code":          `d=$(mktemp -d .XXXXXX); python3 -c "import py_compile; py_compile.compile('crlf.py', '$d/c.pyc')"; "$0" $d/c.pyc`,
			"one that starts itself": `python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || exit 0; "$0" again.py a "b c"; echo $?; "$0" -m again -x; echo $?`,
			"few frames":             `"$0" few.py`,
			"no prompts":             `"$0" -c 'import sys; print(hasattr(sys, "ps1"))'`,
			"the name of a pipe":     `echo 'print(__file__)' | "$0" -`,
			"ends of lines":          `printf 'a\rb\r\nc\n\r' | "$0" -c 'import sys; print(ascii(input()), ascii(sys.stdin.read()))'`,
			"no end of the line":     "\"$0\" -c 'try: input()\nexcept EOFError as e: print(repr(e))' </dev/null",
			"another program":        `"$0" -c 'import os; os.execv("/bin/echo", ["echo", "hi"])'`,
			"an end without words":   `"$0" -c 'import os; os._exit(0)'`,
			"a fork":                 "\"$0\" -c 'import atexit, os\natexit.register(print, \"bye\")\nif os.fork(): os.wait()'",
		}
		alone := map[string]string{ // in a session these differ: it has its own terminal and environment
			"standard input":              `echo 'print(5)' | "$0" /dev/stdin`,
			"the errors of a child":       `"$0" -c 'import subprocess; subprocess.run("echo o; echo e >&2", shell=True)'`,
			"no terminal":                 `echo hi | "$0" -c 'import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())'`,
			"an encoding":                 `PYTHONIOENCODING=latin-1 "$0" -c 'print("\xe9")' | od -c`,
			"no UTF-8":                    `PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=C "$0" -c 'import sys; print(sys.flags.utf8_mode, sys.stdout.encoding)'`,
			"a start-up file":             `PYTHONSTARTUP=no_such_file "$0" -c 'print(2)'`,
			"the variables after the end": `echo 'print(x)' | PYTHONINSPECT=1 "$0" -c 'x = 1'`,
			"a reader that leaves":        `"$0" -c 'for i in range(100000): print(i)' 2>"err.$$" | head -1; sed '/^Exception ignored/,$d' "err.$$"`, // the last flush may fail or not
			"a full disk":                 `test -c /dev/full || exit 0; "$0" -c 'print(1)' >/dev/full; echo $?`,
			"a signal of the program":     `"$0" -c 'import os; os.kill(os.getpid(), 15)'; echo $?`,
			"a crash":                     `ulimit -c 0; "$0" -c 'import os; os.abort()'; echo $?`,
			"a large status":              `"$0" -c 'import sys; sys.exit(300)'; echo $?; "$0" -c 'import sys; sys.exit(-1)'; echo $?`,
			"an interrupt":                `"$0" -c 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'; echo $?`,
			"three interrupts":            `"$0" -c 'import os, signal; signal.signal(2, lambda *a: print("handled")); [os.kill(os.getpid(), 2) for _ in range(3)]'`,
			"signals that are ignored":    `trap '' HUP INT; "$0" -c 'import signal; print(signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT))'`,
			"a job in the background":     `"$0" -c 'import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGQUIT))' & wait`,
			"few files":                   `ulimit -Sn 200; "$0" -c 'import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])'`,
			"a descriptor more":           `"$0" -c 'import os; print(os.read(7, 9))' 7<bom.py`,
			"input that is left over":     `printf 'a\nb\n' | ("$0" -c 'import os; os.read(0, 2)'; cat)`,
			"its parent process":          `"$0" -c 'import os; print(os.getppid(), os.getpgrp(), os.getsid(0))' | sed "s/^$$ /the shell /"`,
			"its own module":              `"$0" bom.py; "$0" -c 'import __main__; print(type(__main__.__loader__), sorted(vars(__main__)))'`,
			"words of the command line":   `"$0" -c 'import sys; print(ascii(sys.argv))' "$(printf 'a\377')" '' 'a b' -c x -m y --version -h`,
			"a name like an option":       `cp bom.py ./-x.py; "$0" -- -x.py a`,
			"a name that is not text":     `n="$(printf 'm\377.py')"; cp bom.py "$n" 2>/dev/null || exit 0; "$0" "$n"`,
			"other processes":             "\"$0\" -c 'import multiprocessing as m\nif __name__ == \"__main__\":\n  with m.get_context(\"spawn\").Pool(2) as p: print(p.map(abs, [-1, 2]))'",
			"a directory that is gone":    `mkdir "gone.$$"; cd "gone.$$"; rmdir "../gone.$$"; "$0" -c 'print(1)'`,
			"a debugger":                  `printf 'p 6 * 7\nc\n' | "$0" -c 'breakpoint(); print("end")'`,
		}
		judge := func(t *testing.T, script, options string) {
			of := func(program string) result {
				var stdout, stderr strings.Builder
				cmd := h.command(t)
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.ReplaceAll(script, `"$0"`, program), program}
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				_ = cmd.Run()
				return result{stdout.String(), stderr.String(), exitStatusOf(t, cmd)}
			}
			wantResult(t, of(`"`+replbin.Path()+`" --python "`+python+`"`+options), of(`"`+python+`"`))
		}
		for name, script := range inBoth {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				judge(t, script, "")
				judge(t, script, " --turn-timeout 1h")
			})
		}
		for name, script := range alone {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				judge(t, script, "")
			})
		}
	})
}

func TestTerminal_RecallsLargeInput(t *testing.T) {
	t.Parallel()
	p := newHome(t).startAtPrompt(t)
	p.typeKeys("\x1b[200~len('" + strings.Repeat("x", 70_000) + "') # the " + "end\x1b[201~")
	p.waitOnScreen("# the end")
	p.typeKeys("\r")
	p.waitText("\r\n70000\r\n")
	p.waitText(">>> ")
	p.typeKeys(keyUp)
	p.waitOnScreen("# the end")
}

// realPython returns the python3 on PATH, or the program behind it if it is a shim.
func realPython(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	itself, err := exec.Command(python, "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(itself)
}

func TestTerminal_GreetingPath(t *testing.T) {
	t.Parallel()
	python := realPython(t)
	p := newHome(t).startTerminal(t, "--python", python)
	if greeting := p.waitText("Tab completes"); !strings.Contains(greeting, python+" (named)") {
		t.Errorf("got %q", greeting)
	}
}

func TestExec_SavesImages(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	got := h.runRepl(t, "", "exec", "main", "-e", "import base64\nclass P:\n  def _repr_png_(self): return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()")
	_, path, _ := strings.Cut(got.stderr, "repl: image: ")
	path, _, _ = strings.Cut(path, ", kept for a day\n")
	if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), "\x89PNG") {
		t.Errorf("got %v: %q, %v", got, path, err)
	}
}

func TestRTerminal(t *testing.T) {
	t.Parallel()

	// The user answers the questions of a program. Lines of the program are never the answer. A file runs as with Rscript, where no user can be asked.
	t.Run("a program asks its user", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		path := h.writeFile(t, "asks.R", "n <- readline('n? ')\nprint(n)\nx <- readLines(stdin(), 1)\nof the file\nprint(x)\ncat(menu(c('a', 'b')), 'end\\n')\n")
		wanted := "[1] \"bob\"\n[1] \"of the file\"\n\n1: a\n2: b\n\n2 end\n"
		wantResult(t, h.runRepl(t, "bob\n2\n", "--turn-timeout", "1h", path), result{wanted, "", 0})
		wantResult(t, h.runRepl(t, "bob\n", "--lang", "r", "-e", "n <- readline('n? ')", "-e", "n"), result{"[1] \"bob\"\n", "", 0})
		wantResult(t, h.runRepl(t, "n <- readline('n? ')\nn\n", "--lang", "r"), result{"[1] \"\"\n", "", 0})
		t.Run("at a terminal", func(t *testing.T) {
			t.Parallel()
			p := h.startTerminal(t, "--turn-timeout", "1h", path)
			p.waitText("n? ")
			p.typeKeys("eve\r")
			p.waitText("[1] \"eve\"\r\n")
			p.waitText("Selection: ")
			p.typeKeys("1\r")
			p.waitText("1 end\r\n")
			p.waitExit(0)
		})
	})

	t.Run("the width follows the terminal", func(t *testing.T) {
		t.Parallel()
		p := newRHome(t).startTerminal(t, "--lang", "r")
		p.waitText("Ctrl-D ends.")
		p.waitText("> ")
		p.enterLine("getOption('width')")
		p.waitText("[1] 100\r\n")
		p.waitText("> ")
		p.enterLine("options(width = 77)")
		p.waitText("> ")
		p.enterLine("getOption('width')") // the user's own setting, until the next change
		p.waitText("[1] 77\r\n")
		p.waitText("> ")
		// The code waits until the change has arrived.
		p.enterLine("cat('o', 'n\\n', sep = ''); while (system('stty size < /dev/tty', intern = TRUE) != '30 70') Sys.sleep(.01)")
		p.waitText("on\r\n")
		if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
			t.Fatal(err)
		}
		p.waitText("> ")
		p.enterLine("getOption('width')")
		p.waitText("[1] 70\r\n")
	})
}
