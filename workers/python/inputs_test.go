//go:build linux || darwin

package python_test

import "testing"

func TestInputs(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s setup) {
		for name, inputs := range map[string][][2]string{
			"a warning comes again": {
				{"import warnings\ndef f(): warnings.warn('careful')\nwarnings.warn('mine')", "<cell 1>:3: UserWarning: mine\n  warnings.warn('mine')\n"},
				{"warnings.warn('mine')", "<cell 2>:1: UserWarning: mine\n  warnings.warn('mine')\n"},
				{"f(); f()", "<cell 1>:2: UserWarning: careful\n  def f(): warnings.warn('careful')\n"},
				{"f()", "<cell 1>:2: UserWarning: careful\n  def f(): warnings.warn('careful')\n"},
			},
			"indented code": {
				{"    x = 1\n    print(x)", "1\n"},
				{"  2", "2\n"},
				{"\n\n\tif x:\n\t\ty = 5\n\n\ty", "5\n"},
				{"    s = '''a\n    b'''\n    s", "'a\\nb'\n"},
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
			"a stream that hides what is printed": {
				{"import io, sys; sys.stdout = io.StringIO(); 1", "[sys.stdout is a StringIO now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n"},
				{"2", ""},
				{"sys.stdout = sys.__stdout__; 3", "3\n"},
				{"import contextlib\nwith contextlib.redirect_stdout(io.StringIO()): print(4)", ""},
				{"sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO('/dev/null', 'w')))", "[sys.stdout is a TextIOWrapper now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n"},
			},
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); steps(t, s, inputs...) })
		}
	})
}
