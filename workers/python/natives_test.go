//go:build linux || darwin

package python_test

import "testing"

// Replacements for C functions look like the originals. The expected values are Python's own.
func TestNatives(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, inputs := range map[string][][2]string{
			"they look like C functions": {
				{"import copy, functools, inspect, os, pickle, pydoc, sys, types\nreplaced = print, input, sys._getframe, os.system, os.posix_spawn, os.execv", ""},
				{"[repr(f) for f in replaced]", "['<built-in function print>', '<built-in function input>', '<built-in function _getframe>', '<built-in function system>', '<built-in function posix_spawn>', '<built-in function execv>']\n"},
				{"[type(f).__name__ for f in replaced if not (isinstance(f, types.BuiltinFunctionType) and inspect.isbuiltin(f) and inspect.isroutine(f) and callable(f))]", "[]\n"},
				{"print.__name__, print.__qualname__, print.__module__, input.__self__.__name__, os.system.__module__, sys._getframe.__module__", "('print', 'print', 'builtins', 'builtins', 'posix', 'sys')\n"},
				{"[f for f in replaced if pickle.loads(pickle.dumps(f)) is not f or copy.deepcopy(f) is not f]", "[]\n"},
				{"functools.partial(print, 'a', end='!\\n')()", "a!\n"},
			},
			"help names them": {
				{"import inspect, pydoc", ""},
				{"[pydoc.plain(pydoc.render_doc(f)).split('\\n')[0] for f in (print, input)]", "['Python Library Documentation: built-in function print in module builtins', 'Python Library Documentation: built-in function input in module builtins']\n"},
				{"str(inspect.signature(print)), 'stream' in pydoc.render_doc(print)", "(\"(*args, sep=' ', end='\\\\n', file=None, flush=False)\", True)\n"},
			},
			"as attributes of a class they do not become methods": {
				{"import os, sys\nclass A:\n    write, ask, run, frame = print, input, os.system, sys._getframe", ""},
				{"A().write('a', 1); A().run(':'), A().ask is input, A().frame().f_code.co_name", "a 1\n(0, True, '<module>')\n"},
			},
			"getpass and inspect keep their parameters": {
				{"import getpass, inspect", ""},
				{"list(inspect.signature(getpass.getpass).parameters)[:2], list(inspect.signature(inspect.getfile).parameters)", "(['prompt', 'stream'], ['object'])\n"},
			},
			"a missing excepthook": {
				{"import sys; del sys.excepthook", ""},
				{"try: 1/0\nexcept ZeroDivisionError as e: error = e.with_traceback(None)\nraise error", "sys.excepthook is missing, printing exception traceback\nTraceback (most recent call last):\n  File \"<cell 2>\", line 3, in <module>\n    raise error\nZeroDivisionError: division by zero\n"},
			},
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); wantOutputs(t, s, inputs...) })
		}
	})
}
