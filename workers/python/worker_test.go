//go:build linux || darwin

package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// eachPython runs a test on the oldest and the newest interpreter, or on all of them on request.
func eachPython(t *testing.T, test func(t *testing.T, s workerSetup)) {
	t.Helper()
	for n, i := range testedPythons.interpreters {
		t.Run(i.Version, func(t *testing.T) {
			t.Parallel()
			test(t, workerSetup{python: i.Path, newest: n == len(testedPythons.interpreters)-1})
		})
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()

	t.Run("shows the last expression and the output", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range []struct{ code, want string }{
				{"1+1", "2\n"},
				{"x = 5", ""},
				{"x", "5\n"},
				{"x;", ""},
				{"x; # not; shown", ""},
				{"x # a comment; only", "5\n"},
				{"'a;'", "'a;'\n"},
				{"(x # a comment;\n)", "5\n"},
				{"x \\\n ;", ""},
				{"'é' ;", ""},
				{"1\n2\n3", "3\n"},
				{"None", ""},
				{"_", "3\n"},
				{"if True:\n    y = 1\nprint(y)", "1\n"},
				{"for i in range(2): i", ""},
				{"", ""},
				{"# only a comment", ""},
				{"print('a')\r\nprint('b')\r\n", "a\nb\n"},
				{"'\\ud800'", "'\\ud800'\n"},
				{"print('\\udcff', end='')", "\xff"},
				{"import sys; sys.stdout.write('no newline'); None", "no newline"},
				{"__name__, __doc__", "('__main__', None)\n"},
				{"sorted(n for n in dir() if not n.startswith('__'))", "['i', 'sys', 'x', 'y']\n"},
				{"sys.argv, '' in sys.path, sys.ps1", "([''], True, '>>> ')\n"},
				{"import os; 'REPL_IPC' in os.environ", "False\n"},
				{"sys.stdin.isatty(), sys.stdout.isatty(), sys.stdin.fileno()", "(True, True, 0)\n"},
				{"'__file__' in globals(), '__spec__' in globals() and __spec__", "(False, None)\n"},
			} {
				if got := w.RunCode(c.code); got.OutputText() != c.want || got.Idle.Outcome != ipc.OutcomeOK || got.Idle.Prompt != ">>> " {
					t.Errorf("%q: got %q, %+v; want %q", c.code, got.Transcript(), got.Idle, c.want)
				}
			}
		})
	})

	t.Run("shows every expression if ShowAll is set", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{}
		s.options.ShowAll = true
		w := startWorker(t, s)
		w.RunCode("1\nx = 2\nx").WantOutput(t, "1\n2\n")
		w.RunCode("for i in range(2): i").WantOutput(t, "0\n1\n")
		w.RunCode("1\n2;").WantOutput(t, "1\n")
	})

	t.Run("shows an error with its source lines", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("def f():\n    return 1/0")
			r := w.RunCode("f()")
			for _, want := range []string{"Traceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\n    f()\n", "File \"<cell 1>\", line 2, in f\n    return 1/0\n", "ZeroDivisionError: division by zero\n"} {
				if !strings.Contains(r.ErrText(), want) {
					t.Errorf("got %q, want %q in it", r.Transcript(), want)
				}
			}
			if strings.Contains(r.OutputText(), "turnstone") {
				t.Errorf("the worker's own frames show: %q", r.OutputText())
			}
			if e := r.Idle.Error; r.Idle.Outcome != ipc.OutcomeError || e == nil || e.Name != "ZeroDivisionError" || e.Message != "division by zero" {
				t.Errorf("got %+v", r.Idle)
			}

			r = w.RunCode("print('not run')\nx = = 1")
			if strings.Contains(r.OutputText(), "not run") || !strings.Contains(r.ErrText(), "SyntaxError") || strings.Contains(r.ErrText(), "Traceback") {
				t.Errorf("a cell that does not compile: got %q", r.Transcript())
			}
			r = w.RunCode("x = 1\nreturn 5")
			if !strings.Contains(r.ErrText(), "    return 5\n") || r.Idle.Error.Name != "SyntaxError" {
				t.Errorf("an error of the compiler's second stage: got %q", r.Transcript())
			}
			r = w.RunCode("input()", "")
			if !strings.HasSuffix(r.ErrText(), "\nEOFError: EOF when reading a line\n") || strings.Contains(r.ErrText(), "turnstone") {
				t.Errorf("end of file: got %q", r.Transcript())
			}
			r = w.RunCode("import json\njson.loads('{')")
			if r.Idle.Error.Name != "json.decoder.JSONDecodeError" {
				t.Errorf("got %+v", r.Idle.Error)
			}
			r = w.RunCode("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
			if r.Idle.Error.Name != "E" || r.Idle.Error.Message != "" {
				t.Errorf("got %+v", r.Idle.Error)
			}
			if r := w.RunCode("print('\\0')\n\xff"); r.Idle.Error == nil || r.Idle.Error.Name != "SyntaxError" {
				t.Errorf("input that is not UTF-8: got %q", r.Transcript())
			}
			if r := w.RunCode("import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0"); r.OutputText() != "mine ZeroDivisionError\n" {
				t.Errorf("a user's hook: got %q", r.Transcript())
			}
			if r := w.RunCode("sys.excepthook = lambda: 1\n1/0"); !strings.Contains(r.ErrText(), "Error in sys.excepthook:") || !strings.Contains(r.ErrText(), "ZeroDivisionError") {
				t.Errorf("a hook that fails: got %q", r.Transcript())
			}
		})
	})

	t.Run("sends images", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.RunCode("class P:\n    def _repr_png_(self): return b'\\x89PNG!'\nclass J:\n    def _repr_jpeg_(self): return b'\\xff\\xd8jpeg', {}\nclass N:\n    def _repr_png_(self): raise ValueError\n    def __repr__(self): return 'N'\nprint('before')\nP()")
			if r.Transcript() != "before\n[image image/png]" {
				t.Errorf("got %q", r.Transcript())
			}
			if r := w.RunCode("J()"); r.Transcript() != "[image image/jpeg]" {
				t.Errorf("got %q", r.Transcript())
			}
			if r := w.RunCode("N()"); r.Transcript() != "N\n<err>[_repr_png_() of N failed: ValueError]\n</err>" || r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("got %q", r.Transcript())
			}
		})
	})
}

func TestCell(t *testing.T) {
	t.Parallel()

	// The bound is on memory, and a character may take four bytes.
	t.Run("limits the memory for sources", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import inspect\ndef f(): pass\ndef known():\n    try: return inspect.getsource(f)\n    except OSError: return 'forgotten'\n")
			wide := "# " + strings.Repeat("\U0001F600", 2<<20)
			for range 3 {
				w.RunCode(wide)
			}
			w.RunCode("print(known())").WantOutput(t, "def f(): pass\n\n")
			for range 2 {
				w.RunCode(wide)
			}
			w.RunCode("print(known())").WantOutput(t, "forgotten\n")
		})
	})

	t.Run("inspect finds the source of functions and classes", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("x = 0\ndef f():\n    return 1  # f\n\nclass C:\n    a = 1  # C\n")
			w.RunCode("import inspect")
			w.RunCode("print(inspect.getsource(f), end='')").WantOutput(t, "def f():\n    return 1  # f\n")
			w.RunCode("print(inspect.getsource(C), end='')").WantOutput(t, "class C:\n    a = 1  # C\n")
			w.RunCode("class C:\n    b = 2\n")
			w.RunCode("print(inspect.getsource(C), end='')").WantOutput(t, "class C:\n    b = 2\n")
			if r := w.RunCode("import threading\nt = threading.Thread(target=lambda: 1/0); t.start(); t.join()"); !strings.Contains(r.ErrText(), "t = threading.Thread(target=lambda: 1/0)") {
				t.Errorf("a thread's error has no source: %q", r.Transcript())
			}
		})
	})

	t.Run("a future import applies to later inputs", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("from __future__ import annotations")
			w.RunCode("def f(x: undefined): pass\nf.__annotations__").WantOutput(t, "{'x': 'undefined'}\n")
		})
	})

	t.Run("every top-level await runs on the same loop", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import asyncio\nawait asyncio.sleep(0, 'done')").WantOutput(t, "'done'\n")
			w.RunCode("q = asyncio.Queue()\nloop = asyncio.get_running_loop() if False else None\nasync def put(): await q.put(7)\nt = asyncio.ensure_future(put()); await t")
			w.RunCode("await q.get()").WantOutput(t, "7\n")
			w.RunCode("async def three(): return 3\ntask = asyncio.create_task(three())\nawait task").WantOutput(t, "3\n")
			w.RunCode("asyncio.run(asyncio.sleep(0, 'run'))").WantOutput(t, "'run'\n")
			w.RunCode("x = await asyncio.sleep(0, 1)\nx").WantOutput(t, "1\n")
			w.StartTurn("await asyncio.sleep(100)")
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("await asyncio.sleep(0, 'still')").WantOutput(t, "'still'\n")
		})
	})
}

func TestStartup(t *testing.T) {
	t.Parallel()

	t.Run("runs the startup file as turn 0", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			file := filepath.Join(t.TempDir(), "startup.py")
			write := func(code string) {
				if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s.Env = []string{"PYTHONSTARTUP=" + file}
			s.NoTurn0 = true
			begin := func(code string) *worker {
				write(code)
				w := startWorker(t, s)
				if m := w.TakeReady(); m.Protocol.Name != ipc.ProtocolName || m.Worker.PID != uint64(w.Cmd.Process.Pid) || !m.Capabilities.Fence {
					t.Fatalf("got %+v", m)
				}
				return w
			}

			w := begin("print('hello'); name = input('name? '); here = __file__")
			r := w.FinishTurn("Ada")
			if got, want := r.Transcript(), `hello`+"\n"+`name? [wait line line "name? "][line "Ada"]`; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("got %+v", r.Idle)
			}
			w.RunCode("name, here == "+"'"+file+"', '__file__' in globals()").WantOutput(t, "('Ada', True, False)\n")

			w = begin("1/0")
			if r := w.FinishTurn(); r.Idle.Outcome != ipc.OutcomeError || !strings.Contains(r.ErrText(), "ZeroDivisionError") {
				t.Errorf("a start-up file that fails: %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("1").WantOutput(t, "1\n")

			w = begin("import time; print('up', flush=True); time.sleep(100)")
			w.WaitOutput("up")
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Errorf("an interrupted start-up: %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("1").WantOutput(t, "1\n")

			s.Env = []string{"PYTHONSTARTUP=/nonexistent/file"}
			w = begin("")
			if r := w.FinishTurn(); !strings.Contains(r.ErrText(), "Could not open PYTHONSTARTUP\nFileNotFoundError") || r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("no start-up file: %q %+v", r.Transcript(), r.Idle)
			}
		})
	})

	t.Run("ignores shadowing modules in the working directory", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			for _, name := range []string{"select", "fcntl", "_ast", "__future__", "traceback", "linecache", "codeop", "faulthandler", "turnstone_worker", "token", "mine"} {
				if err := os.WriteFile(filepath.Join(s.Dir, name+".py"), []byte("print('loaded', __name__)\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w := startWorker(t, s)
			if r := w.RunCode("1/0"); strings.Contains(r.OutputText(), "loaded") || !strings.Contains(r.ErrText(), "ZeroDivisionError") {
				t.Errorf("got %q", r.Transcript())
			}
			w.RunCode("import mine").WantOutput(t, "loaded mine\n")
		})
	})
}
