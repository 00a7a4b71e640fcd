//go:build linux

package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestEnvironment_ActiveVirtualEnvironmentIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "env")
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		t.Fatalf("python3 -m venv: %v: %s", err, out)
	}
	r := open(t, python.Options{Env: []string{"VIRTUAL_ENV=" + dir}})
	r.turn(t, "import sys; print(sys.prefix, sys.prefix != sys.base_prefix)").wants(t, dir+" True\n")
	if why := r.Info().Why; !strings.Contains(why, "VIRTUAL_ENV") {
		t.Errorf("it was chosen because of %q", why)
	}
}

func TestEnvironment_IsTheUsersAndShowsNothingOfOurs(t *testing.T) {
	t.Setenv("TURNSTONE_TEST_PASSES", "through")
	eachPython(t, func(t *testing.T, o python.Options) {
		o.Env = []string{"ADDED=yes", "HOME"}
		r := open(t, o)
		r.turn(t, "import os; print(os.environ['TERM'], os.environ['TURNSTONE_TEST_PASSES'], os.environ['ADDED'], 'HOME' in os.environ)").
			wants(t, "dumb through yes False\n")
		// REPL_TAG stays: it is how the processes of a session are told from others.
		r.turn(t, "print([k for k in os.environ if k.startswith('REPL')])").wants(t, "['REPL_TAG']\n")
		r.turn(t, "os.system('env | grep ^REPL | grep -v ^REPL_TAG='); None").wants(t, "")
		r.turn(t, "import ctypes; getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p; print(getenv(b'REPL_IPC'))").wants(t, "None\n")
	})
}

func TestEnvironment_ChildrenHaveTheTerminalAndNothingElse(t *testing.T) {
	const listing = `"import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))"`
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		r.turn(t, "import os, subprocess, sys").wants(t, "")
		for _, code := range []string{
			"subprocess.run([sys.executable, '-S', '-c', " + listing + "]); None",
			"subprocess.run([sys.executable, '-S', '-c', " + listing + "], close_fds=False); None",
			"os.posix_spawn(sys.executable, [sys.executable, '-S', '-c', " + listing + "], os.environ); os.wait(); None",
			"pid = os.fork()\nif pid == 0: os.execv(sys.executable, [sys.executable, '-S', '-c', " + listing + "])\nos.waitpid(pid, 0); None",
		} {
			if res := r.turn(t, code); res.text() != "[0, 1, 2]\n" {
				t.Errorf("%.60s…: got %q", code, res.script())
			}
		}
		// A fork that does not exec is cut off as well: nothing but the terminal.
		res := r.turn(t, `pid = os.fork()
if pid == 0:
    print(sorted({os.readlink('/proc/self/fd/' + n) == os.ttyname(0) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)}))
    os._exit(0)
os.waitpid(pid, 0); None`)
		if res.text() != "[True]\n" {
			t.Errorf("the fork has more than the terminal: %q", res.script())
		}
	})
}

// A start-up file runs as turn 0.
func startUp(t *testing.T, o python.Options, content string) python.Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "startup.py")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "PYTHONSTARTUP="+path)
	return o
}

// site is start-up code that runs before there is any worker.
func site(t *testing.T, o python.Options, content string) python.Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "PYTHONPATH="+dir)
	return o
}

func TestStartUp_WhatItPrintsIsTurnZero(t *testing.T) {
	for name, file := range starts() {
		t.Run(name, func(t *testing.T) {
			eachPython(t, func(t *testing.T, o python.Options) {
				r := launch(t, file(t, o, "print('hello from the start')\n"))
				e := r.until(t, "the greeting", prints("hello from the start\n"))
				if e.Turn != 0 || e.Between {
					t.Errorf("got %+v, want it in turn 0", e)
				}
				r.settle(t)
				r.clean(t)
			})
		})
	}
}

// starts are the two kinds of start-up files.
func starts() map[string]func(*testing.T, python.Options, string) python.Options {
	return map[string]func(*testing.T, python.Options, string) python.Options{"PYTHONSTARTUP": startUp, "sitecustomize": site}
}

func TestStartUp_QuestionIsAnswered(t *testing.T) {
	for name, file := range starts() {
		t.Run(name, func(t *testing.T) {
			eachPython(t, func(t *testing.T, o python.Options) {
				r := launch(t, file(t, o, "import builtins\nbuiltins.name = input('who? ')\n"))
				reply, err := r.Wait(limited(t), nil)
				if err != nil || reply.State != supervisor.StateWaiting || reply.Wait.Prompt != "who? " || reply.Wait.Turn != 0 {
					t.Fatalf("got %s, wait %+v, %q, %v", reply.State, reply.Wait, reply.Text(), err)
				}
				if err := r.Current().Answer(t.Context(), reply.Wait.ID, supervisor.Input{Data: []byte("Ada\n")}); err != nil {
					t.Fatal(err)
				}
				r.settle(t)
				r.turn(t, "name").wants(t, "'Ada'\n")
				r.clean(t)
			})
		})
	}
}

func TestStartUp_QuestionTakesTheInputThatIsHeld(t *testing.T) {
	for name, file := range starts() {
		t.Run(name, func(t *testing.T) {
			r := launch(t, file(t, python.Options{}, "import time; time.sleep(0.2)\nimport builtins\nbuiltins.name = input('who? ')\n"))
			turn := r.submit(t, "Ada")
			if _, err := turn.Wait(limited(t), nil); err != nil {
				t.Fatal(err)
			}
			r.settle(t)
			r.turn(t, "name").wants(t, "'Ada'\n")
			r.clean(t)
		})
	}
}

func TestStartUp_SlowOneHoldsTheInput(t *testing.T) {
	for name, file := range starts() {
		t.Run(name, func(t *testing.T) {
			r := launch(t, file(t, python.Options{}, "import time; time.sleep(0.5)\nimport builtins; builtins.slow = 42\n"))
			r.turn(t, "slow").wants(t, "42\n")
		})
	}
}

func TestStartUp_FailureIsShownAndTheSessionWorks(t *testing.T) {
	for name, file := range starts() {
		t.Run(name, func(t *testing.T) {
			eachPython(t, func(t *testing.T, o python.Options) {
				r := launch(t, file(t, o, "raise RuntimeError('the start-up is broken')\n"))
				r.until(t, "the error", prints("the start-up is broken"))
				r.settle(t)
				r.clean(t)
			})
		})
	}
}

func TestStartUp_OfADirectoryThatShadowsModulesWorks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"select", "fcntl", "traceback", "random", "linecache", "codecs", "io"} {
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(fmt.Sprintf("where = %q\nraise SystemExit('shadowed')\n", name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eachPython(t, func(t *testing.T, o python.Options) {
		o.Dir = dir
		r := open(t, o)
		r.clean(t)
		if res := r.turn(t, "1/0"); res.failure != "ZeroDivisionError" || !strings.HasSuffix(res.text(), "ZeroDivisionError: division by zero\n") {
			t.Errorf("got %q, outcome %q", res.script(), res.outcome)
		}
	})
}
