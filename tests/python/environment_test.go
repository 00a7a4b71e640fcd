//go:build linux

package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()

	t.Run("uses the active virtual environment", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "env")
		if out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
			t.Fatalf("python3 -m venv: %v: %s", err, out)
		}
		r := openSession(t, python.Options{Env: []string{"VIRTUAL_ENV=" + dir}})
		r.RunCode(t, "import sys; print(sys.prefix, sys.prefix != sys.base_prefix)").WantTranscript(t, dir+" True\n")
		if why := sessionkit.SessionInfo(r).ExecutableSource; !strings.Contains(why, "VIRTUAL_ENV") {
			t.Errorf("the reason for its choice is %q", why)
		}
	})

	t.Run("children inherit the terminal and no other descriptor", func(t *testing.T) {
		t.Parallel()
		const listing = `"import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))"`
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			r.RunCode(t, "import os, subprocess, sys").WantTranscript(t, "")
			for _, code := range []string{
				"subprocess.run([sys.executable, '-S', '-c', " + listing + "]); None",
				"subprocess.run([sys.executable, '-S', '-c', " + listing + "], close_fds=False); None",
				"os.posix_spawn(sys.executable, [sys.executable, '-S', '-c', " + listing + "], os.environ); os.wait(); None",
				"pid = os.fork()\nif pid == 0: os.execv(sys.executable, [sys.executable, '-S', '-c', " + listing + "])\nos.waitpid(pid, 0); None",
			} {
				if res := r.RunCode(t, code); res.OutputText() != "[0, 1, 2]\n" {
					t.Errorf("%.60s…: got %q", code, res.Transcript())
				}
			}
			// A fork without exec has only the terminal, too.
			res := r.RunCode(t, `pid = os.fork()
if pid == 0:
    print(sorted({os.readlink('/proc/self/fd/' + n) == os.ttyname(0) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)}))
    os._exit(0)
os.waitpid(pid, 0); None`)
			if res.OutputText() != "[True]\n" {
				t.Errorf("the fork has more than the terminal: %q", res.Transcript())
			}
		})
	})
}

func TestEnvironment_Variables(t *testing.T) {
	t.Setenv("TURNSTONE_TEST_PASSES", "through")
	eachPython(t, func(t *testing.T, o python.Options) {
		o.Env = []string{"ADDED=yes", "HOME"}
		r := openSession(t, o)
		r.RunCode(t, "import os; print(os.environ['TERM'], os.environ['TURNSTONE_TEST_PASSES'], os.environ['ADDED'], 'HOME' in os.environ)").
			WantTranscript(t, "dumb through yes False\n")
		// TURNSTONE_TAG stays, because it marks the processes of a session.
		r.RunCode(t, "print([k for k in os.environ if k.startswith('REPL')], 'TURNSTONE_TAG' in os.environ)").WantTranscript(t, "[] True\n")
		r.RunCode(t, "os.system('env | grep ^REPL'); None").WantTranscript(t, "")
		r.RunCode(t, "import ctypes; getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p; print(getenv(b'REPL_IPC'))").WantTranscript(t, "None\n")
	})
}

// A start-up file runs as turn 0.
func withStartupFile(t *testing.T, o python.Options, content string) python.Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "startup.py")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "PYTHONSTARTUP="+path)
	return o
}

// withSiteCustomize sets up start-up code that runs before the worker exists.
func withSiteCustomize(t *testing.T, o python.Options, content string) python.Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "PYTHONPATH="+dir)
	return o
}

func TestStartup(t *testing.T) {
	t.Parallel()

	t.Run("its output belongs to turn 0", func(t *testing.T) {
		t.Parallel()
		for name, file := range startupFiles() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachPython(t, func(t *testing.T, o python.Options) {
					r := sessionkit.LaunchSession(t, python.Spec(file(t, o, "print('hello from the start')\n")))
					e := r.WaitEvent(t, "the greeting", sessionkit.IsText("hello from the start\n"))
					if e.Turn != 0 || e.BetweenTurns {
						t.Errorf("got %+v, want it in turn 0", e)
					}
					r.WaitUntilReady(t)
					wantCleanTurn(t, r)
				})
			})
		}
	})

	t.Run("may ask for input", func(t *testing.T) {
		t.Parallel()
		for name, file := range startupFiles() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachPython(t, func(t *testing.T, o python.Options) {
					r := sessionkit.LaunchSession(t, python.Spec(file(t, o, "import builtins\nbuiltins.name = input('who? ')\n")))
					reply, err := r.Wait(sessionkit.TimeoutContext(t), 0, nil)
					if err != nil || reply.State != session.StateWaiting || reply.InputRequest.Prompt != "who? " || reply.InputRequest.Turn != 0 {
						t.Fatalf("got %s, wait %+v, %q, %v", reply.State, reply.InputRequest, reply.Text(), err)
					}
					if _, err := r.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: []byte("Ada\n")}); err != nil {
						t.Fatal(err)
					}
					r.WaitUntilReady(t)
					r.RunCode(t, "name").WantTranscript(t, "'Ada'\n")
					wantCleanTurn(t, r)
				})
			})
		}
	})

	t.Run("its question takes queued input", func(t *testing.T) {
		t.Parallel()
		for name, file := range startupFiles() {
			t.Run(name, func(t *testing.T) {
				wait, goOn := newGate(t)
				r := sessionkit.LaunchSession(t, python.Spec(file(t, python.Options{}, wait+"\nimport builtins\nbuiltins.name = input('who? ')\n")))
				turn := r.StartTurn(t, "Ada")
				goOn()
				if _, err := r.Wait(sessionkit.TimeoutContext(t), turn, nil); err != nil {
					t.Fatal(err)
				}
				r.WaitUntilReady(t)
				r.RunCode(t, "name").WantTranscript(t, "'Ada'\n")
				wantCleanTurn(t, r)
			})
		}
	})

	t.Run("a slow startup queues the input", func(t *testing.T) {
		t.Parallel()
		for name, file := range startupFiles() {
			t.Run(name, func(t *testing.T) {
				r := sessionkit.LaunchSession(t, python.Spec(file(t, python.Options{}, "import time; time.sleep(0.5)\nimport builtins; builtins.slow = 42\n")))
				r.RunCode(t, "slow").WantTranscript(t, "42\n")
			})
		}
	})

	t.Run("a failure is shown and the session works", func(t *testing.T) {
		t.Parallel()
		for name, file := range startupFiles() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachPython(t, func(t *testing.T, o python.Options) {
					r := sessionkit.LaunchSession(t, python.Spec(file(t, o, "raise RuntimeError('the start-up is broken')\n")))
					r.WaitEvent(t, "the error", sessionkit.IsText("the start-up is broken"))
					r.WaitUntilReady(t)
					wantCleanTurn(t, r)
				})
			})
		}
	})

	t.Run("works in a directory that shadows modules", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		for _, name := range []string{"select", "fcntl", "traceback", "random", "linecache", "codecs", "io"} {
			if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(fmt.Sprintf("where = %q\nraise SystemExit('shadowed')\n", name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			o.Dir = dir
			r := openSession(t, o)
			wantCleanTurn(t, r)
			if res := r.RunCode(t, "1/0"); res.Failure != "ZeroDivisionError" || !strings.HasSuffix(res.OutputText(), "ZeroDivisionError: division by zero\n") {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
		})
	})
}

// startupFiles lists the two kinds of start-up files.
func startupFiles() map[string]func(*testing.T, python.Options, string) python.Options {
	return map[string]func(*testing.T, python.Options, string) python.Options{"PYTHONSTARTUP": withStartupFile, "sitecustomize": withSiteCustomize}
}
