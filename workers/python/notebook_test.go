//go:build linux || darwin

package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
)

// runCell runs a cell of a notebook.
func (w *worker) runCell(code string) result {
	w.t.Helper()
	w.Turn++
	w.SendMessage(ipc.TurnStart{Turn: w.Turn, Input: []byte(code), NoExit: true, Dialect: ipc.DialectNotebook})
	return w.FinishTurn()
}

// wantCells runs cells in one worker, and compares their transcripts with text. A text after a
// tilde is a regular expression.
func wantCells(t *testing.T, w *worker, cells [][2]string) {
	t.Helper()
	for _, c := range cells {
		got := w.runCell(c[0]).Transcript()
		if pattern, ok := strings.CutPrefix(c[1], "~"); ok {
			if !regexp.MustCompile(`(?s)^(?:` + pattern + `)$`).MatchString(got) {
				t.Errorf("%q:\ngot  %q\nwant %s", c[0], got, pattern)
			}
		} else if got != c[1] {
			t.Errorf("%q:\ngot  %q\nwant %q", c[0], got, c[1])
		}
	}
}

const (
	timeText  = `CPU times: user [\d.e+]+ (?:ns|μs|ms|s), sys: [\d.e+]+ (?:ns|μs|ms|s), total: [\d.e+]+ (?:ns|μs|ms|s)\nWall time: [\d.e+]+ (?:ns|μs|ms|s)\n`
	loopsText = `[\d.]+ (?:ns|μs|ms|s) ± [\d.e+]+ (?:ns|μs|ms|s) per loop \(mean ± std\. dev\. of 2 runs, 3 loops each\)\n`
)

func TestNotebook(t *testing.T) {
	t.Parallel()

	t.Run("magics do what IPython does", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			real, err := filepath.EvalSymlinks(s.Dir)
			if err != nil {
				t.Fatal(err)
			}
			s.Env = append(s.Env, "SHELL=/bin/sh", "OF_SHELL=of shell")
			w := startWorker(t, s)
			wantCells(t, w, [][2]string{
				{"%matplotlib inline", ""},
				{"%matplotlib inline\nx = 41\n%config InlineBackend.figure_format = 'retina'\n%load_ext autoreload\nx + 1", "42\n"},
				{"%precision 3\n%colors NoColor\n%xmode Minimal\n%matplotlib", ""},
				{"%autoreload 2", "~<err>\\[%autoreload does nothing here: .*\\]\n</err>"},
				{"%autoreload 2", ""},
				{"%autoreload 0", ""},

				{"!echo hello", "hello\n"},
				{"!echo a; echo b >&2; exit 3", "a\nb\n"},
				{"_exit_code", "3\n"},
				{"!printf 'x\\n' | tr x y  # a comment of the shell", "y\n"},
				{"files = !printf 'a b\\nc\\n'\nfiles", "['a b', 'c']\n"},
				{"files.n, files.s, files.l, len(files)", "('a b\\nc', 'a b c', ['a b', 'c'], 2)\n"},
				{"a, b = !printf '1\\n2\\n'\nb", "'2'\n"},
				{"d = {}\nd['k'] = !echo in a dict\nd", "{'k': ['in a dict']}\n"},
				{"both = !echo out; echo err >&2\nboth", "['out', 'err']\n"},
				{"!!echo value", "['value']\n"},
				{"%sx echo value", "['value']\n"},
				{"y = %sx echo value\ny", "['value']\n"},
				{"!echo one \\\n  two \\\n  three\nprint(1)", "one two three\n1\n"},

				{"name, n, table = 'a b', 3, {'k': [7]}\n!echo $name {name} {n + 1} {table['k'][0]}", "a b a b 4 7\n"},
				{"!echo '$name' \"$name\" $name.csv '{name}'", "$name a b a b.csv a b\n"},
				{"!echo $OF_SHELL ${OF_SHELL} $nothing", "of shell of shell\n"},
				{"!echo $$name {{n}} \\$name", "{n} $name\n"},
				{"!echo 'a{2}' '{left,right}' '{}' '{print}' '{\"n\": 1}' '{no_name}'", "a{2} {left,right} {} {print} {\"n\": 1} {no_name}\n"},
				{"def f(local):\n    !echo $local {local * 2}\n    out = !echo {local}\n    return out\nf('q')", "q qq\n['q']\n"},

				{"%time 1 + 1", "~" + timeText + "2\n"},
				{"%time x = 5\nx", "~" + timeText + "5\n"},
				{"y = %time x * 2\ny", "~" + timeText + "10\n"},
				{"%time 1 + 1;", "~" + timeText},
				{"%time 1 + 1  # ; of a comment", "~" + timeText + "2\n"},
				{"%time for i in range(2): print(i)\ni", "~0\n1\n" + timeText + "1\n"},
				{"%time import os; x = 6\nx", "~" + timeText + "6\n"},
				{"%time !echo child", "~child\n" + timeText},
				{"%time", ""},
				{"def f(n):\n    %time m = n + 1\n    return m\nf(1)", "~" + timeText + "2\n"},
				{"import asyncio\nasync def g(): return 7\n%time await g()", "~" + timeText + "7\n"},
				{"%%time\nz = 8\nprint('in')\nz", "~in\n" + timeText + "8\n"},
				{"%%time\n\n!echo child\n1/0", "~child\n" + timeText + "<err>Traceback.*line 4, in <module>\n    1/0\n.*ZeroDivisionError: division by zero\n</err>"},
				{"%timeit -n 3 -r 2 x + 1", "~" + loopsText},
				{"r = %timeit -n3 -r2 -q -o x + 1\nr.loops, r.repeat, r.best <= r.average <= r.worst, len(r.all_runs)", "(3, 2, True, 2)\n"},
				{"%%timeit -n 3 -r 2 q = 2\ns = q + x\nt = s", "~" + loopsText},
				{"'s' in globals() or 't' in globals()", "False\n"},

				{"%%capture kept\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\n!echo child\ndisplay({'text/plain': 'shown', 'text/html': '<b>'}, raw=True)\n5", ""},
				{"kept.stdout, kept.stderr, [sorted(o.data) for o in kept.outputs], str(kept)", "('out\\nchild\\n',\n 'err\\n',\n [['text/html', 'text/plain'], ['text/plain']],\n 'out\\nchild\\n')\n"},
				{"kept()", "out\nchild\n<err>err\n</err>[display: text/html text/plain] shown\n[result: text/plain]\n"},
				{"%%capture\nprint('gone')", ""},
				{"%%capture kept\nawait asyncio.sleep(0)\nfrom turnstone import clear_output\ndisplay(1)\nclear_output()\ndisplay(2)", ""},
				{"[o.data for o in kept.outputs]", "[{'text/plain': '2'}]\n"},
				{"%%time\nawait asyncio.sleep(0)\n!echo slept", "~slept\n" + timeText},
				{"%%capture --no-stderr\nprint('gone')\nprint('seen', file=sys.stderr)", "<err>seen\n</err>"},
				{"%%capture\n%%time\nprint('gone')", ""},
				{"%%capture\n1/0", "~<err>Traceback.*ZeroDivisionError: division by zero\n</err>"},
				{"print('again')", "again\n"},

				{"%%bash\nx=1\nif [ $x = 1 ]; then echo \"{name} $x it's\"; fi", "{name} 1 it's\n"},
				{"%%sh\necho 'a\nb'", "a\nb\n"},
				{"%%bash\nexit 4", "~<err>Traceback.*CalledProcessError: Command 'bash' returned non-zero exit status 4.\n</err>"},
				{"%%bash --no-raise-error\nexit 4", ""},
				{"%%bash --out text --err=errors\necho out; echo err >&2", ""},
				{"text, errors", "('out\\n', 'err\\n')\n"},
				{"%%writefile $name.txt\nfirst {name}\n  %matplotlib", "Writing a b.txt\n"},
				{"%%writefile -a 'a b.txt'\nlast\n", "Appending to a b.txt\n"},
				{"open('a b.txt').read()", "'first {name}\\n  %matplotlib\\nlast\\n'\n"},
				{"%%file a b.txt\nnew", "Overwriting a b.txt\n"},

				{"%pwd", "'" + real + "'\n"},
				{"import os; os.mkdir('sub')\n%cd sub", real + "/sub\n"},
				{"%cd -", real + "\n"},
				{"%cd -q sub\nhere = %pwd\nhere", "'" + real + "/sub'\n"},
				{"%cd ..\n!pwd", real + "\n" + real + "\n"},
				{"%env A_VALUE=x {name}", "env: A_VALUE=x a b\n"},
				{"%set_env OTHER y z", "env: OTHER=y z\n"},
				{"%env A_VALUE", "'x a b'\n"},
				{"%env SPACED = z", "env: SPACED=z\n"},
				{"%env var A_VALUE=z", "~<err>.*ValueError: %env: 'var A_VALUE' is not a name of a variable; use NAME=VALUE\n</err>"},
				{"%env NO_SUCH_VALUE", "~<err>.*KeyError.*"},
				{"%cd -q $HOME\n%cd -q -\n%cd -q '$HOME/../.'\n%cd -q -", ""},
				{"!echo $A_VALUE", "x a b\n"},
				{"e = %env\ne['OTHER']", "'y z'\n"},
				{"%pip --version", `~(pip .*\(python \d+\.\d+\)|.*: No module named pip)` + "\n"}, // the system may have none
				{"%who", "~.*\\bfiles\t.*\n"},
				{"%whos", "~.*\nfiles  +Lines .*"},

				{"for i in range(300): globals()['v%d' % i] = i\n%who\n", "~v299\tv298\t.*\n\\[\\d+ more\\]\n"},
				{"where = %pwd\nos.mkdir('gone')\n%cd -q gone\n!rmdir ../gone\n%cd -q {where}\n!pwd", real + "\n"},

				{"len?", "~Signature: len\\(obj, /\\)\nType: builtin_function_or_method\n\nReturn the number of items in a container.\n"},
				{"?len", "~Signature: len.*"},
				{"def h(a, b=1):\n    \"\"\"Of h.\"\"\"\n    return a\n", ""},
				{"h??", "~Signature: h\\(a, b=1\\)\n.*Of h\\.\n\ndef h\\(a, b=1\\):\n    \"\"\"Of h\\.\"\"\"\n    return a\n"},
				{"os.path.join?", "~Signature: os\\.path\\.join\\(a, (?:/, )?\\*p\\)\n.*"},
				{"nothing.at.all?", "Object `nothing.at.all` not found.\n"},
			})
		})
	})

	t.Run("a wide value has one line for each element", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w, k := startWorker(t, s), strings.Repeat("k", 30)
			wantCells(t, w, [][2]string{
				{"import collections\nkey = 'k' * 30", ""},
				{"[1, {'a': (2,)}], {3, 1, 2}, frozenset(), int, ...", "([1, {'a': (2,)}], {1, 2, 3}, frozenset(), int, Ellipsis)\n"},
				{"[key, (key, key, 1), key]", "['" + k + "',\n ('" + k + "', '" + k + "', 1),\n '" + k + "']\n"},
				{"{1: {key: key, 2: key}}", "{1: {'" + k + "': '" + k + "',\n  2: '" + k + "'}}\n"},
				{"class Two:\n    def __repr__(self): return 'a\\nb'\nTwo(), [Two()]", "(a\n b,\n [a\n  b])\n"},
				{"collections.Counter('aab'), collections.OrderedDict(a=1), collections.defaultdict(list, b=[])",
					"(Counter({'a': 2, 'b': 1}),\n OrderedDict([('a', 1)]),\n defaultdict(list, {'b': []}))\n"},
				{"def f(x, *, y=1): pass\nf", "<function __main__.f(x, *, y=1)>\n"},
				{"loop = [1]\nloop.append(loop)\nloop", "[1, [...]]\n"},
			})
			many := w.runCell("list(range(2000))").Transcript()
			if strings.Count(many, "\n") != 1001 || !strings.HasSuffix(many, " 999,\n ...]\n") {
				t.Errorf("a long list: %.60q … %q", many, many[max(0, len(many)-60):])
			}
			if plain := w.RunCode("[key, key, key]").Transcript(); strings.Count(plain, "\n") != 1 {
				t.Errorf("outside of a notebook: %q", plain)
			}
		})
	})

	t.Run("a script leaves its names", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			wantCells(t, startWorker(t, s), [][2]string{
				{"%%writefile of_script.py\nimport sys, of_module\nname = of_module.name + sys.argv[1]\nif len(sys.argv) > 2: sys.exit(int(sys.argv[2]))", "Writing of_script.py\n"},
				{"%%writefile of_module.py\nname = 'own '\n", "Writing of_module.py\n"},
				{"import sys\nbefore, extra = (list(sys.argv), list(sys.path)), 'an argument'\n%run of_script.py '{extra}'\nname", "'own an argument'\n"},
				{"before == (sys.argv, sys.path), __name__", "(True, '__main__')\n"},
				{"name = 1\n%run of_script.py a 0\nname", "1\n"},
				{"%run of_script.py a 3", "~.*SystemExit: 3\n.*"},
				{"%run no_such.py", "~<err>.*FileNotFoundError.*"},
				{"%run -t of_script.py", "~<err>.*ValueError: %run needs .*"},
				{"%%writefile shared.py\nprint(name)\nname += 1\n", "Writing shared.py\n"},
				{"%run shared.py", "~<err>.*NameError: name 'name' is not defined.*"},
				{"%run -i shared\nname", "1\n2\n"},
				{"%load shared.py", "print(name)\nname += 1\n"},
				{"%%writefile part.ipynb\n{\"cells\": [{\"cell_type\": \"markdown\", \"source\": \"no code\"}, {\"cell_type\": \"code\", \"source\": [\"%matplotlib inline\\n\", \"part = name\\n\", \"part\"]}, {\"cell_type\": \"code\", \"source\": \"!echo in part\"}]}", "Writing part.ipynb\n"},
				{"%run part.ipynb\npart", "in part\n2\n"},
				{"%run no_such.ipynb", "~<err>.*FileNotFoundError.*"},
				{"%reset", "~<err>.*ValueError: %reset needs -f\n</err>"},
				{"%reset -f\n'part' in globals(), 'name' in globals(), __name__", "(False, False, '__main__')\n"},
			})
		})
	})

	t.Run("a program runs the cell", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			wantCells(t, startWorker(t, s), [][2]string{
				{"%%script cat -\na\n{b}", "a\n{b}"},
				{"%%bash -s one \"two words\"\necho $1, $2", "one, two words\n"},
				{"name = 'a value'\n_ = 1", ""},
				{"%%bash -s '{name}'\necho $1", "a value\n"},
				{"%%script sh --out kept\necho kept", ""},
				{"kept", "'kept\\n'\n"},
				{"%%script --no-raise-error false\nskipped", ""},
				{"%%script false\nx", "~<err>.*CalledProcessError: Command 'false' returned non-zero exit status 1.\n</err>"},
				{"%%script no-such-program\nx", "~<err>.*FileNotFoundError.*"},
				{"%%capture said\n%%script cat\nx", ""},
				{"said.stdout", "'x'\n"},
			})
		})
	})

	t.Run("a cell of one line may lack the percent sign", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			real, err := filepath.EvalSymlinks(s.Dir)
			if err != nil {
				t.Fatal(err)
			}
			w := startWorker(t, s)
			wantCells(t, w, [][2]string{
				{"pwd", "'" + real + "'\n"},
				{"\nmkdir sub\n", ""},
				{"cd sub", real + "/sub\n"},
				{"cd -q ..", ""},
				{"ls -d sub", "sub/\n"},
				{"matplotlib inline", ""},
				{"timeit -n 3 -r 2 1 + 1", "~" + loopsText},
				{"time 1 + 1", "~" + timeText + "2\n"},
				{"x = 1\npwd", "~<err>.*NameError: name 'pwd' is not defined.*"},
				{"ls = 3", ""},
				{"ls", "3\n"},
				{"ls - 1", "2\n"},
				{"ls -d", "~<err>.*NameError: name 'd' is not defined.*"},
				{"cd == 1", "~<err>.*NameError: name 'cd' is not defined.*"},
				{"cd.x", "~<err>.*NameError: name 'cd' is not defined.*"},
				{"nothing here", "~<err>.*SyntaxError.*"},
			})
			if got := w.RunCode("pwd").Transcript(); !strings.Contains(got, "NameError: name 'pwd' is not defined") {
				t.Errorf("in plain Python: got %q", got)
			}
			w.SendMessage(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: "pip install x", Dialect: ipc.DialectNotebook})
			if m, ok := w.NextEvent().(ipc.QueryResult); !ok || m.Status != ipc.StatusComplete {
				t.Errorf("got %+v", m)
			}
		})
	})

	t.Run("cells find get_ipython(), and libraries do not", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			w := startWorker(t, s)
			wantCells(t, w, [][2]string{
				{"get_ipython().__class__.__name__, 'IPKernelApp' in get_ipython().config, 'google.colab' in str(get_ipython())", "('ZMQInteractiveShell', True, False)\n"},
				{"get_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().magic('matplotlib inline')", ""},
				{"get_ipython().magic('env A=1')\nget_ipython().run_line_magic('env', 'A')", "env: A=1\n'1'\n"},
				{"get_ipython().run_cell_magic('writefile', 'f.txt', 'text')", "Writing f.txt\n"},
				{"get_ipython().run_cell_magic('time', '', 'n = 2\\nn')", "~" + timeText + "2\n"},
				{"get_ipython().run_line_magic('time', 'm = n')\nm, get_ipython().user_ns['m']", "~" + timeText + "\\(2, 2\\)\n"},
				{"get_ipython().system('echo {n}')\nget_ipython().getoutput('echo $n')", "2\n['2']\n"},
				{"get_ipython().run_cell('!echo {n}\\nn')", "2\n2\n"},
				{"get_ipython().run_line_magic('no_such', '')", "~<err>.*SyntaxError.*"},
				{"get_ipython().register_magic_function(lambda line: line.upper(), magic_name='shout')", ""},
				{"%shout n is {n}", "'N IS 2'\n"},
				{"y = %shout $n\ny", "'2'\n"},
				{"shout again", "'AGAIN'\n"},
				{"def both(line, cell=None): return line, cell\nget_ipython().register_magic_function(both, 'line_cell')", ""},
				{"%both a", "('a', None)\n"},
				{"%%both a\nb\n{n}", "('a', 'b\\n{n}\\n')\n"},
				{"%%writefile library.py\ndef is_there():\n    try:\n        return get_ipython()\n    except NameError:\n        return 'not found'\n", "Writing library.py\n"},
				{"import library\nlibrary.is_there()", "'not found'\n"},
			})
			if got := w.RunCode("get_ipython()").Transcript(); !strings.Contains(got, "NameError: name 'get_ipython' is not defined") {
				t.Errorf("in plain Python: got %q", got)
			}
			w.RunCode("import builtins; hasattr(builtins, 'get_ipython')").WantOutput(t, "False\n")
		})
	})

	t.Run("a notebook may show the value of each expression", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			wantCells(t, w, [][2]string{
				{"1\n2", "2\n"},
				{"%config InteractiveShell.ast_node_interactivity = 'all'", ""},
				{"1\nx = 5\n2", "1\n2\n"},
			})
			w.RunCode("1\n2").WantOutput(t, "2\n")
			wantCells(t, w, [][2]string{
				{"get_ipython().ast_node_interactivity = 'last_expr'", ""},
				{"1\n2", "2\n"},
			})
		})
	})

	t.Run("a cell may be a display", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			wantCells(t, startWorker(t, s), [][2]string{
				{"%%html\n<b>{x}</b>", "[display: text/html]\n"},
				{"%%svg\n<svg/>", "[image image/svg+xml]"},
				{"%%markdown\n# t\n", "[display: text/markdown text/plain] # t\n"},
				{"%%html", "[display: text/html]\n"},
				{"%%HTML\n<b>", "[display: text/html]\n"},
			})
		})
	})

	t.Run("a list of variables may be of some types only", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			wantCells(t, startWorker(t, s), [][2]string{{"a, b, c = 1, 'b', 2.5", ""}, {"%who str", "b\n"}})
		})
	})

	// Each case is a report about another kernel.
	t.Run("known faults of other kernels are absent", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Env, s.Dir = append(s.Env, "SHELL=/bin/sh"), t.TempDir()
			wantCells(t, startWorker(t, s), [][2]string{
				{"where, x = 'here', 'aaaa bbb'", ""},
				{"!echo find $where -name '*.py' -exec cat {} \\;", "find here -name *.py -exec cat {} ;\n"},               // ipython 11327
				{"!echo \"$x\" | awk '{print $1}'", "aaaa\n"},                                                              // ipython 10111
				{"!echo \"{x}\" | awk '{{print $$2}}'", "bbb\n"},                                                           // the same
				{"!echo '{' $where '}' '{\"n\": {\"m\": 1}}'", "{ here } {\"n\": {\"m\": 1}}\n"},                           // the same
				{"!echo {12} a{2,3} '{{7}}'", "{12} a{2,3} {7}\n"},                                                         // ipython 13690
				{"async def later(): return 'bar'\n%time await later()", "~" + timeText + "'bar'\n"},                       // ipython 14157
				{"%time x.upper();", "~" + timeText},                                                                       // ipython 13837
				{"def test(msg):\n    %time variable = msg\n    print(variable)\ntest('moin')", "~" + timeText + "moin\n"}, // ipython 13137
				{"%%time\na = 1\nb = 2\nc = 3", "~" + timeText},                                                            // ipython 11811, 11813
				{"a, b, c", "(1, 2, 3)\n"},                                                                                 // the same
				{"%%time\nx = 10\nx = x*2\nx", "~" + timeText + "20\n"},                                                    // ipython 11707
				{"%%time # a comment\n5;", "~" + timeText},                                                                 // ipython 13057
				{"%config a \\\n    -p b\nc", "3\n"},                                                                       // jupytext 209
				{"%%timeit", "~<err>.*SyntaxError.*"},                                                                      // pyzo 363
				{"text = '''\n%3 = alloca %jl_value\n!x = y\n'''\n%config a\nlen(text)", "30\n"},                           // IJulia.jl 888
				{"import pickle\nfiles = !echo a\npickle.loads(pickle.dumps(files)) == ['a']", "True\n"},
				{"%%writefile ü.txt\né €\r\n", "Writing ü.txt\n"},
				{"open('ü.txt', 'rb').read()", "b'\\xc3\\xa9 \\xe2\\x82\\xac\\n'\n"},
			})
		})
	})

	t.Run("valid Python has no other meaning", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			magics := []string{
				"%matplotlib inline", "%time 1", "%timeit 1", "%%time", "%%timeit", "%%capture", "%%bash", "%%writefile f", "!ls", "!!ls",
				"x = !ls", "x = %pwd", "%pip install a", "%cd /", "%pwd", "%env", "%who", "len?", "?len", "len??",
			}
			for _, m := range magics {
				for _, code := range []string{
					"s = '''\n" + m + "\n'''\nprint(repr(s))",                     // a string
					"def f():\n    '''\n    " + m + "\n    '''\nprint(f.__doc__)", // a docstring
					"# " + m + "\nprint(1)",                                       // a comment
					"s = 'a \\\n" + m + "'\nprint(s)",                             // a continued string
				} {
					plain, cell := w.RunCode(code), w.runCell(code)
					if plain.Transcript() != cell.Transcript() || plain.Idle.Outcome != ipc.OutcomeOK {
						t.Errorf("%q: got %q in a notebook, %q otherwise", code, cell.Transcript(), plain.Transcript())
					}
					// The same next to a magic, which makes the cell one that is translated.
					if got, want := w.runCell("%matplotlib inline\n"+code).Transcript(), plain.Transcript(); got != want {
						t.Errorf("%q after a magic: got %q, want %q", code, got, want)
					}
					if got, want := w.runCell(code+"\n!echo end").Transcript(), plain.Transcript()+"end\n"; got != want {
						t.Errorf("%q before a magic: got %q, want %q", code, got, want)
					}
				}
			}
			wantCells(t, w, [][2]string{
				{"time, x, len_ = 3, 17, 2\nprint(x\n  %time)\n(x\n%time)", "2\n2\n"},
				{"y = x \\\n%time\ny", "2\n"},
				{"%config a\ny = (x\n%time)\nz = [x\n%time,\n%time\n]\ny", "~<err>.*SyntaxError.*"},
				{"%config a\ny = (x\n%time)\nprint(y)\ny = x \\\n%time\ny", "2\n2\n"},
				{"%config a\nw = f(  # why?\n%time\n)", "~<err>.*SyntaxError.*"},
				{"x # = !ls\n%config a\nprint(x) # = %pwd\nx # = !echo no", "17\n17\n"},
				{"%config a\nx; y = 5 # = !ls\ny", "5\n"},
				{"v: list = !echo a\nv", "['a']\n"},
				{"d = {}\nd[' = !a'] = 1  # x = !ls\n%config a\nd", "{' = !a': 1}\n"},
				{"%config a\nu = {'a': 5}\nu['b = %c'] = '''\n%cd /\n!ls\n''' # what?\nlen(u)", "2\n"},
			})
		})
	})

	t.Run("in modules of the standard library, only magics between statements change", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			out, err := exec.Command(s.python, "testdata/notebook_check.py", "src").CombinedOutput()
			if n, rest, _ := strings.Cut(string(out), " "); err != nil || len(n) < 3 || rest != "modules\n" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	})

	t.Run("magics are found wherever a statement begins", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Env = append(s.Env, "SHELL=/bin/false") // of an account that has no shell
			wantCells(t, startWorker(t, s), [][2]string{
				{"for i in range(2):\n    if i:\n        !echo $i\n        %matplotlib inline\n    else:\n        %config a\n    !echo after $i\nprint('end')", "after 0\n1\nafter 1\nend\n"},
				{"def f():\n\tfor x in [1]:\n\t\ty = !echo $x\n\t\treturn y\n!echo between\nf()", "between\n['1']\n"},
				{"try:\n    !echo try\n    1/0\nexcept ZeroDivisionError:\n    !echo it\\'s caught\nfinally:\n    !echo finally", "try\nit's caught\nfinally\n"},
				{"try:\n    1/0\nexcept ZeroDivisionError:\n    !echo \"it's caught\"\n!echo on", "it's caught\non\n"},
				{"class C:\n    %config a\n    x = !echo 1\n    def f(self):\n        %time 1\n        return 2\n\n    %config b\nC().x", "['1']\n"},
				{"# a comment\n\n  # another\n%matplotlib inline\n# and\n!echo a", "a\n"},
				{"\n\n%matplotlib inline\n1", "1\n"},
				{"\r\n%matplotlib inline\r\nx = 1\r\n!echo a\r\nx", "a\n1\n"},
				{"%%bash\r\necho a\r\necho b\r\n", "a\nb\n"},
				{"\ufeff%matplotlib inline\n1", "1\n"},
				{"    %matplotlib inline\n    !echo indented\n    x = 1\n    x", "indented\n1\n"},
				{"\n\n%%time\n1;", "~" + timeText},
				{"!echo é ' ü  '", "é  ü  \n"},
				{"%matplotlib inline\n\n", ""},
				{"!", ""},
			})
		})
	})

	t.Run("errors keep their lines and are those of Python", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			wantCells(t, w, [][2]string{
				{"%matplotlib inline\n!true\n1/0", "~<err>Traceback.*File \"<cell 1>\", line 3, in <module>\n    1/0\n.*ZeroDivisionError: division by zero\n</err>"},
				{"%time 1/0", "~<err>Traceback.*line 1, in <module>\n    %time 1/0\n.*ZeroDivisionError: division by zero\n</err>"},
				{"!true \\\n  a \\\n  b\n1/0", "~.*line 4, in <module>\n    1/0\n.*"},
				{"%%bash\nfalse", "~<err>Traceback \\(most recent call last\\):\n  File \"<cell 4>\", line 1, in <module>\n    %%bash\n[ ^~]*\n?subprocess.CalledProcessError: .*"},
				{"%matplotlib inline\nx = = 1", "~<err>  File \"<cell 5>\", line 2\n    x = = 1\n.*SyntaxError: invalid syntax\n</err>"},
				{"print('not run')\n%matplotlib inline\n%no_such magic", "~<err>  File \"<cell 6>\", line 3\n    %no_such magic\n.*SyntaxError: invalid syntax\n\\[%no_such is none of the magics that notebooks have here\\]\n</err>"},
				{"%%no_such\nx", "~<err>  File.*SyntaxError.*\\[%%no_such is none of .*"},
				{"# first\n%%time\n1", "~<err>  File.*%%time\n.*SyntaxError.*"},
				{"%%time 1\n2", "~<err>.*SyntaxError.*"},
				{"%time %time 1", "~<err>.*SyntaxError.*"},
				{"1\n%%bash\nls", "~<err>.*SyntaxError.*"},
				{"if 1: !ls", "~<err>.*SyntaxError.*"},
				{"x = 1; %time x", "~<err>.*SyntaxError.*"},
				{"%cd /no/such/directory", "~<err>.*FileNotFoundError.*"},
				{"x = !", ""},
			})
			if r := w.runCell("%matplotlib inline\n'\\d'\n1"); strings.Count(r.ErrText(), "invalid escape") > 1 {
				t.Errorf("a warning came twice: %q", r.Transcript())
			}
			w.runCell("%matplotlib inline\nclass Kept:\n    one = 1\ndef kept():\n    return 2")
			w.RunCode("import inspect\nprint(inspect.getsource(kept))").WantOutput(t, "def kept():\n    return 2\n\n")
		})
	})

	t.Run("other turns of the session are plain Python", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, code := range []string{"%matplotlib inline", "!ls", "x = !ls", "%%bash\nls", "len?", "%time 1", "%pip install x"} {
				before := w.RunCode(code).Transcript()
				w.runCell("%matplotlib inline\n!true")
				after := w.RunCode(code).Transcript()
				if number := regexp.MustCompile(`<cell \d+>`); number.ReplaceAllString(before, "") != number.ReplaceAllString(after, "") {
					t.Errorf("%q: got %q before a notebook's cell, %q after it", code, before, after)
				}
				if !strings.Contains(before, "SyntaxError") || !strings.Contains(before, "[this is plain Python") {
					t.Errorf("%q: got %q", code, before)
				}
			}
		})
	})

	t.Run("a query knows magics", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for text, want := range map[string]ipc.QueryStatus{
				"%matplotlib inline":          ipc.StatusComplete,
				"!ls":                         ipc.StatusComplete,
				"x = !ls":                     ipc.StatusComplete,
				"!ls \\":                      ipc.StatusIncomplete,
				"!ls \\\n -l":                 ipc.StatusComplete,
				"len?":                        ipc.StatusComplete,
				"%matplotlib inline\nf(":      ipc.StatusIncomplete,
				"%matplotlib inline\nf(]":     ipc.StatusInvalid,
				"for i in x:\n    !ls":        ipc.StatusIncomplete,
				"for i in x:\n    !ls\n\n":    ipc.StatusComplete,
				"%%time":                      ipc.StatusIncomplete,
				"%%time\nf()\n":               ipc.StatusIncomplete,
				"%%time\nf()\n\n":             ipc.StatusComplete,
				"%%bash\nif [":                ipc.StatusIncomplete,
				"%%bash\nls\n\n":              ipc.StatusComplete,
				"%no_such":                    ipc.StatusInvalid,
				"print(1)":                    ipc.StatusComplete,
				"'''\n%matplotlib":            ipc.StatusIncomplete,
				"%matplotlib inline\n'''\n%a": ipc.StatusIncomplete,
			} {
				w.SendMessage(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: text, Dialect: ipc.DialectNotebook})
				e := w.NextEvent()
				if m, ok := e.(ipc.QueryResult); !ok || m.Status != want {
					t.Errorf("%q: got %+v, want %s", text, e, want)
				}
			}
			w.SendMessage(ipc.Query{ID: 2, Kind: ipc.QueryParse, Text: "%matplotlib inline"})
			if m, ok := w.NextEvent().(ipc.QueryResult); !ok || m.Status != ipc.StatusInvalid {
				t.Errorf("without the dialect: got %+v", m)
			}
		})
	})

	t.Run("an interrupt ends a command, and captured output is over", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			w := startWorker(t, s)
			w.Turn++
			w.SendMessage(ipc.TurnStart{Turn: w.Turn, Input: []byte("%%capture\nprint('hidden')\n!echo > begun; sleep 600"), NoExit: true, Dialect: ipc.DialectNotebook})
			if !wait.Within(time.Minute, func() bool { _, err := os.Stat(filepath.Join(s.Dir, "begun")); return err == nil }) {
				t.Fatal("the command does not run")
			}
			w.sendInterrupt(1, 1)
			if r := w.FinishTurn(); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Errorf("got %q", r.Transcript())
			}
			wantCells(t, w, [][2]string{{"print(1)\n2", "1\n2\n"}})
		})
	})
}
