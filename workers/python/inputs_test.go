//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"
)

func TestInputs(t *testing.T) {
	t.Parallel()

	t.Run("runs inputs in any layout", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			for name, inputs := range map[string][][2]string{
				"a warning is shown again in a later input": {
					{"import warnings\ndef f(): warnings.warn('careful')\nwarnings.warn('mine')", "<cell 1>:3: UserWarning: mine\n  warnings.warn('mine')\n"},
					{"warnings.warn('mine')", "<cell 2>:1: UserWarning: mine\n  warnings.warn('mine')\n"},
					{"f(); f()", "<cell 1>:2: UserWarning: careful\n  def f(): warnings.warn('careful')\n"},
					{"f()", "<cell 1>:2: UserWarning: careful\n  def f(): warnings.warn('careful')\n"},
				},
				"a warning of the compiler shows its line": {
					{"x = lambda: ()()", "<cell 1>:1: SyntaxWarning: 'tuple' object is not callable; perhaps you missed a comma?\n  x = lambda: ()()\n"},
				},
				"a file that the next value replaces is reported at its line": {
					{"import io, os, warnings\nwarnings.simplefilter('always')\nio.FileIO(os.devnull)", "<_io.FileIO name='/dev/null' mode='rb' closefd=True>\n"},
					{"5", "5\n<cell 2>:1: ResourceWarning: unclosed file <_io.FileIO name='/dev/null' mode='rb' closefd=True>\n  5\nResourceWarning: Enable tracemalloc to get the object allocation traceback\n"},
				},
				"a finalizer's warning names no line of the worker": {
					{"import gc, io, os, warnings\nwarnings.simplefilter('always')\nclass C: pass\ndef left():\n    c = C(); c.c, c.f = c, io.FileIO(os.devnull)", ""},
					{"def show(m, c, f, line, *_): seen.append(f)\nseen, warnings.showwarning = [], show\ngc.set_threshold(2)", ""},
					{"left()", ""},
					{"left()", ""},
					{"left(); gc.set_threshold(700)", ""},
					{"gc.collect(); len(seen), [f for f in seen if 'turnstone' in f]", "(3, [])\n"},
				},
				"indented code": {
					{"    x = 1\n    print(x)", "1\n"},
					{"  2", "2\n"},
					{"\n\n\tif x:\n\t\ty = 5\n\n\ty", "5\n"},
					{"    s = '''a\n    b'''\n    s", "'a\\nb'\n"},
					{"    s = '''a\nb\f c\u2028d'''\n# a comment\n    s", "'a\\nb\\x0c c\\u2028d'\n"},
					{"try: exec('    x = 1\\ny = 2')\nexcept IndentationError as e: print(e.msg)", "unexpected indent\n"},
				},
				"the source of a class in a block": {
					{"import inspect", ""},
					{"if True:\n    class A:\n        x = 1", ""},
					{"print(inspect.getsource(A))", "    class A:\n        x = 1\n\n"},
					{"def f():\n    class B: y = 2\n    return B", ""},
					{"print(inspect.getsource(f()))", "    class B: y = 2\n\n"},
					{"class A:\n    z = 3", ""},
					{"print(inspect.getsource(A))", "class A:\n    z = 3\n\n"},
				},
				"a file that the code has closed is not the stream of the next input": {
					{"import io, os, sys, tempfile; n = tempfile.mkstemp()[1]", ""},
					{"sys.stdout = open(n, 'w'); print('to the file'); sys.stdout.close()", ""},
					{"1", "1\n"},
					{"sys.stdin = open(n); input(), sys.stdin.close()", "('to the file', None)\n"},
					{"sys.stdin is sys.__stdin__", "True\n"},
					{"sys.stderr = open(n, 'w'); sys.stderr.close()\ntry: 1/0\nexcept ZeroDivisionError as e: error = e.with_traceback(None)\nraise error", "Traceback (most recent call last):\n  File \"<cell 6>\", line 4, in <module>\n    raise error\nZeroDivisionError: division by zero\n"},
					{"os.remove(n); sys.stdout = None\ntry: sys.displayhook(2)\nexcept RuntimeError as e: sys.stderr.write('%s\\n' % e)", "lost sys.stdout\n[sys.stdout is None now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n"},
				},
				"a text layer that is freed leaves the bytes open": {
					{"import io, sys", ""},
					{"sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')", ""},
					{"sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8'); print('é')", "é\n"},
					{"sys.stderr = io.TextIOWrapper(sys.stderr.buffer, encoding='utf-8')", ""},
					{"sys.stderr = io.TextIOWrapper(sys.stderr.buffer, encoding='utf-8'); _ = print('é', file=sys.stderr)", "é\n"},
					{"sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8')", ""},
					{"sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8'); sys.stdin.closed", "False\n"},
					{"sys.__stdin__.detach(); sys.stdout.detach(); None", ""},
					{"sys.stdin.closed, sys.__stdin__.closed", "(False, False)\n"},
				},
				"sources outlive a cleared cache": {
					{"import inspect, linecache\ndef f(): return 1", ""},
					{"linecache.clearcache(); print(inspect.getsource(f))", "def f(): return 1\n\n"},
				},
				"a stream that hides what is printed": {
					{"import io, sys; sys.stdout = io.StringIO(); 1", "[sys.stdout is a StringIO now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n"},
					{"2", ""},
					{"sys.stdout = sys.__stdout__; 3", "3\n"},
					{"import contextlib\nwith contextlib.redirect_stdout(io.StringIO()): print(4)", ""},
					{"sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO('/dev/null', 'w')))", "[sys.stdout is a TextIOWrapper now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n"},
				},
			} {
				t.Run(name, func(t *testing.T) { t.Parallel(); wantOutputs(t, s, inputs...) })
			}
		})
	})

	// A line with a different indentation is still an error.
	t.Run("rejects uneven indentation", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, code := range []string{"    x = 1\ny = 2", "    if 1:\n        x = 1\nelse:\n        x = 2", "        x = 1\n    y = 2"} {
			if r := w.RunCode(code); r.Idle.Error == nil || r.Idle.Error.Name != "IndentationError" {
				t.Errorf("%q: got %q %+v", code, r.Transcript(), r.Idle)
			}
		}
		if r := w.RunCode("In [1]: 1"); !strings.Contains(r.ErrText(), "[the input has prompts (In [1]:): send the code without them]") {
			t.Errorf("got %q", r.Transcript())
		}
	})

	// An error after the end of a line is marked there, as by python -c.
	t.Run("marks an error at the end of a line", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, code := range []string{"a = 5 if", "a = 5 if\n", "y = 1\na = 5 if"} {
				if r := w.RunCode(code); !strings.Contains(r.ErrText(), "    a = 5 if\n       ") || !strings.HasSuffix(r.ErrText(), " ^\nSyntaxError: invalid syntax\n") {
					t.Errorf("%q: got %q", code, r.ErrText())
				}
			}
		})
	})

	// Code and the hooks of libraries call Python's own hook.
	t.Run("sys.__excepthook__ shows the lines of inputs", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import sys\ndef f(): return 1/0\ndef hook(*args): native(*args)\nnative = sys.excepthook")
			for _, code := range []string{
				"try: f()\nexcept ZeroDivisionError: sys.excepthook(*sys.exc_info())",
				"try: f()\nexcept ZeroDivisionError: sys.__excepthook__(*sys.exc_info())",
				"sys.excepthook = hook; f()",
				"sys.excepthook = native; f()",
			} {
				if r := w.RunCode(code); strings.Count(r.ErrText(), "    def f(): return 1/0\n") != 1 {
					t.Errorf("%q: got %q", code, r.ErrText())
				}
			}
			w.RunCode("sys.excepthook, sys.excepthook is sys.__excepthook__").WantOutput(t, "(<built-in function excepthook>, True)\n")
			w.RunCode("sys.excepthook(ValueError, ValueError('x'), None)")
			w.RunCode("sys.stderr = None; sys.excepthook(ValueError, ValueError('x'), None); sys.stderr = sys.__stderr__").WantOutput(t, "")
		})
	})

	// Every Python from 3.10 on suggests a similar name, at its own prompt and in a thread.
	t.Run("errors suggest similar names", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import sys, threading")
			if w.RunCode("sys.version_info < (3, 10)").OutputText() == "True\n" {
				return // it has no suggestions
			}
			for code, want := range map[string]string{
				"prnt('x')":               "NameError: name 'prnt' is not defined. Did you mean: 'print'?\n",
				"[].appendd":              "AttributeError: 'list' object has no attribute 'appendd'. Did you mean", // the rest depends on the version
				"try: prnt\nfinally: 1/0": "NameError: name 'prnt' is not defined. Did you mean: 'print'?\n\nDuring",
				"t = threading.Thread(target=lambda: prnt); t.start(); t.join()": "NameError: name 'prnt' is not defined. Did you mean: 'print'?\n",
				"raise NameError('own text')":                                    "NameError: own text\n",
				"qqqqqq":                                                         "NameError: name 'qqqqqq' is not defined\n",
				"print(1, bad=2)":                                                "print() got an unexpected keyword argument 'bad'\n",
			} {
				if r := w.RunCode(code); !strings.Contains(r.ErrText(), want) {
					t.Errorf("%q: got %q, want %q", code, r.ErrText(), want)
				}
			}
		})
	})
}
