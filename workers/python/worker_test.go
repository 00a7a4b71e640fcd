//go:build linux || darwin

package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// eachPython runs a test on every interpreter of the matrix.
func eachPython(t *testing.T, test func(t *testing.T, s setup)) {
	t.Helper()
	for _, path := range pythons(t) {
		name := filepath.Base(filepath.Dir(filepath.Dir(path)))
		t.Run(name, func(t *testing.T) {
			test(t, setup{python: path})
		})
	}
}

// pythons are the interpreters to test on: python3, those of pyenv, and those that
// TURNSTONE_TEST_PYTHONS lists.
func pythons(t *testing.T) []string {
	t.Helper()
	var found []string
	if home, err := os.UserHomeDir(); err == nil {
		found, _ = filepath.Glob(filepath.Join(home, ".pyenv", "versions", "3.*", "bin", "python"))
	}
	found = append(found, filepath.SplitList(os.Getenv("TURNSTONE_TEST_PYTHONS"))...)
	usable := []string{"python3"}
	for _, path := range found {
		version := filepath.Base(filepath.Dir(filepath.Dir(path)))
		if !strings.HasPrefix(version, "3.6.") && !strings.HasPrefix(version, "3.7.") {
			usable = append(usable, path)
		}
	}
	if len(usable) == 1 {
		t.Log("only python3 is tested: install others with pyenv, or list them in TURNSTONE_TEST_PYTHONS=PATH:PATH")
	}
	return usable
}

func TestTurn_ShowsWhatItShould(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
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
			if got := w.run(c.code); got.out() != c.want || got.idle.Outcome != ipc.OutcomeOK || got.idle.Prompt != ">>> " {
				t.Errorf("%q: got %q, %+v; want %q", c.code, got.script(), got.idle, c.want)
			}
		}
	})
}

func TestTurn_AllExpressionsAreShownWhenAskedFor(t *testing.T) {
	s := setup{}
	s.options.ShowAll = true
	w := start(t, s)
	w.run("1\nx = 2\nx").wants(t, "1\n2\n")
	w.run("for i in range(2): i").wants(t, "0\n1\n")
	w.run("1\n2;").wants(t, "1\n")
}

func TestTurn_ErrorIsShownWithItsSource(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run("def f():\n    return 1/0")
		r := w.run("f()")
		for _, want := range []string{"Traceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\n    f()\n", "File \"<cell 1>\", line 2, in f\n    return 1/0\n", "ZeroDivisionError: division by zero\n"} {
			if !strings.Contains(r.errText(), want) {
				t.Errorf("got %q, want %q in it", r.script(), want)
			}
		}
		if strings.Contains(r.out(), "turnstone") {
			t.Errorf("the worker's own frames show: %q", r.out())
		}
		if e := r.idle.Error; r.idle.Outcome != ipc.OutcomeError || e == nil || e.Name != "ZeroDivisionError" || e.Message != "division by zero" {
			t.Errorf("got %+v", r.idle)
		}

		r = w.run("print('not run')\nx = = 1")
		if strings.Contains(r.out(), "not run") || !strings.Contains(r.errText(), "SyntaxError") || strings.Contains(r.errText(), "Traceback") {
			t.Errorf("a cell that does not compile: got %q", r.script())
		}
		r = w.run("x = 1\nreturn 5")
		if !strings.Contains(r.errText(), "    return 5\n") || r.idle.Error.Name != "SyntaxError" {
			t.Errorf("an error of the compiler's second stage: got %q", r.script())
		}
		r = w.run("input()", "")
		if !strings.HasSuffix(r.errText(), "input()\nEOFError\n") && !strings.Contains(r.errText(), "EOFError\n") || strings.Contains(r.errText(), "turnstone") {
			t.Errorf("end of file: got %q", r.script())
		}
		r = w.run("import json\njson.loads('{')")
		if r.idle.Error.Name != "json.decoder.JSONDecodeError" {
			t.Errorf("got %+v", r.idle.Error)
		}
		r = w.run("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
		if r.idle.Error.Name != "E" || r.idle.Error.Message != "" {
			t.Errorf("got %+v", r.idle.Error)
		}
		if r := w.run("print('\\0')\n\xff"); r.idle.Error == nil || r.idle.Error.Name != "SyntaxError" {
			t.Errorf("input that is no UTF-8: got %q", r.script())
		}
		if r := w.run("import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0"); r.out() != "mine ZeroDivisionError\n" {
			t.Errorf("a hook of the user's: got %q", r.script())
		}
		if r := w.run("sys.excepthook = lambda: 1\n1/0"); !strings.Contains(r.errText(), "Error in sys.excepthook:") || !strings.Contains(r.errText(), "ZeroDivisionError") {
			t.Errorf("a hook that fails: got %q", r.script())
		}
	})
}

func TestCell_SourceIsKnownToInspect(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run("x = 0\ndef f():\n    return 1  # f\n\nclass C:\n    a = 1  # C\n")
		w.run("import inspect")
		w.run("print(inspect.getsource(f), end='')").wants(t, "def f():\n    return 1  # f\n")
		w.run("print(inspect.getsource(C), end='')").wants(t, "class C:\n    a = 1  # C\n")
		w.run("class C:\n    b = 2\n")
		w.run("print(inspect.getsource(C), end='')").wants(t, "class C:\n    b = 2\n")
		if r := w.run("import threading\nt = threading.Thread(target=lambda: 1/0); t.start(); t.join()"); !strings.Contains(r.errText(), "t = threading.Thread(target=lambda: 1/0)") {
			t.Errorf("a thread's error has no source: %q", r.script())
		}
	})
}

func TestCell_FutureFeaturesPersist(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run("from __future__ import annotations")
		w.run("def f(x: undefined): pass\nf.__annotations__").wants(t, "{'x': 'undefined'}\n")
	})
}

func TestCell_TopLevelAwaitRunsOnOneLoop(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run("import asyncio\nawait asyncio.sleep(0, 'done')").wants(t, "'done'\n")
		w.run("q = asyncio.Queue()\nloop = asyncio.get_running_loop() if False else None\nasync def put(): await q.put(7)\nt = asyncio.ensure_future(put()); await t")
		w.run("await q.get()").wants(t, "7\n")
		w.run("async def three(): return 3\ntask = asyncio.create_task(three())\nawait task").wants(t, "3\n")
		w.run("asyncio.run(asyncio.sleep(0, 'run'))").wants(t, "'run'\n")
		w.run("x = await asyncio.sleep(0, 1)\nx").wants(t, "1\n")
		w.begin("await asyncio.sleep(100)")
		w.interrupt(1, 1)
		if r := w.finish(); r.idle.Outcome != ipc.OutcomeInterrupted {
			t.Errorf("got %q %+v", r.script(), r.idle)
		}
		w.run("await asyncio.sleep(0, 'still')").wants(t, "'still'\n")
	})
}

func TestStartUp_FileRunsAsTurnZero(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		file := filepath.Join(t.TempDir(), "startup.py")
		write := func(code string) {
			if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.env = []string{"PYTHONSTARTUP=" + file}
		s.noTurn0 = true
		begin := func(code string) *worker {
			write(code)
			w := start(t, s)
			if m := w.ready(); m.Protocol.Name != ipc.ProtocolName || m.Worker.PID != uint64(w.cmd.Process.Pid) || !m.Capabilities.Fence {
				t.Fatalf("got %+v", m)
			}
			return w
		}

		w := begin("print('hello'); name = input('name? '); here = __file__")
		r := w.finish("Ada")
		if got, want := r.script(), `hello`+"\n"+`name? [wait line line "name? "][line "Ada"]`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if r.idle.Outcome != ipc.OutcomeOK {
			t.Errorf("got %+v", r.idle)
		}
		w.run("name, here == "+"'"+file+"', '__file__' in globals()").wants(t, "('Ada', True, False)\n")

		w = begin("1/0")
		if r := w.finish(); r.idle.Outcome != ipc.OutcomeError || !strings.Contains(r.errText(), "ZeroDivisionError") {
			t.Errorf("a start-up file that fails: %q %+v", r.script(), r.idle)
		}
		w.run("1").wants(t, "1\n")

		w = begin("import time; print('up', flush=True); time.sleep(100)")
		w.await("up")
		w.interrupt(1, 1)
		if r := w.finish(); r.idle.Outcome != ipc.OutcomeInterrupted {
			t.Errorf("an interrupted start-up: %q %+v", r.script(), r.idle)
		}
		w.run("1").wants(t, "1\n")

		s.env = []string{"PYTHONSTARTUP=/nonexistent/file"}
		w = begin("")
		if r := w.finish(); !strings.Contains(r.errText(), "Could not open PYTHONSTARTUP\nFileNotFoundError") || r.idle.Outcome != ipc.OutcomeOK {
			t.Errorf("no start-up file: %q %+v", r.script(), r.idle)
		}
	})
}

func TestStartUp_ModulesInTheWorkingDirectoryDoNotMeddle(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		s.dir = t.TempDir()
		for _, name := range []string{"select", "fcntl", "_ast", "__future__", "traceback", "linecache", "codeop", "faulthandler", "turnstone_worker", "token", "mine"} {
			if err := os.WriteFile(filepath.Join(s.dir, name+".py"), []byte("print('loaded', __name__)\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w := start(t, s)
		if r := w.run("1/0"); strings.Contains(r.out(), "loaded") || !strings.Contains(r.errText(), "ZeroDivisionError") {
			t.Errorf("got %q", r.script())
		}
		w.run("import mine").wants(t, "loaded mine\n")
	})
}

func TestDisplay_PicturesAreImages(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		r := w.run("class P:\n    def _repr_png_(self): return b'\\x89PNG!'\nclass J:\n    def _repr_jpeg_(self): return b'\\xff\\xd8jpeg', {}\nclass N:\n    def _repr_png_(self): raise ValueError\n    def __repr__(self): return 'N'\nprint('before')\nP()")
		if r.script() != "before\n[image image/png]" {
			t.Errorf("got %q", r.script())
		}
		if r := w.run("J()"); r.script() != "[image image/jpeg]" {
			t.Errorf("got %q", r.script())
		}
		w.run("N()").wants(t, "N\n")
	})
}
