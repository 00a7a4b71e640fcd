//go:build linux || darwin

package python_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

func TestDisplay(t *testing.T) {
	t.Parallel()

	t.Run("shows the representations that a value offers", func(t *testing.T) {
		t.Parallel()
		image, named := "[image image/png]", "[result: image/png text/plain]\n"
		cases := []struct{ code, want string }{
			{"Silent(_repr_png_=PNG)", image},
			{"Offers(_repr_png_=base64.b64encode(PNG).decode())", named},
			{"Offers(_repr_png_='no image')", "an Offers\n<err>[_repr_png_() of Offers: image/png is not base64]\n</err>"},
			{"Offers(_repr_png_=b'GIF')", "an Offers\n<err>[_repr_png_() of Offers: its data is no image/png]\n</err>"},
			{"Offers(_repr_mimebundle_={'image/png': PNG, 'text/plain': 'no'})", "[result: image/png text/plain]\n"},
			{"Offers(_repr_mimebundle_=({'image/png': base64.b64encode(PNG).decode()}, {}))", named},
			{"Offers(_repr_mimebundle_={'text/html': '<p>', 'text/plain': 'plain'})", "plain\n[result: text/html text/plain]\n"},
			{"class Pretty:\n    def _repr_pretty_(self, p, cycle): p.text('pretty')\n    def __repr__(self): return 'not this'\nPretty()", "pretty\n"},
			{"class Needs:\n    def _repr_pretty_(self, p, cycle): p.none()\n    def __repr__(self): return 'its repr'\nNeeds()", "its repr\n"},
			{"Offers(_repr_mimebundle_={'text/html': '<p>'})", "an Offers\n[result: text/html text/plain]\n"},
			{"Silent(_repr_mimebundle_={'text/html': '<p>'})", "[result: text/html]\n"},
			{"Offers(_repr_mimebundle_={}, _repr_png_=PNG)", named},
			{"Offers(_repr_mimebundle_={'text/html': '<p>'}, _repr_html_='no', _repr_latex_='$p$')", "an Offers\n[result: text/html text/latex text/plain]\n"},
			{"Offers(_repr_png_=PNG, _repr_json_=[1], _repr_latex_='$p$', _repr_html_='<p>')", "[result: application/json image/png text/html text/latex text/plain]\n"},
			{"Offers(_repr_html_='<p>')", "an Offers\n[result: text/html text/plain]\n"},
			{"Silent(_repr_html_='<p>é')", "[result: text/html]\n"},
			{"Silent(_repr_svg_='<svg/>', _repr_html_='<p>')", "[result: image/svg+xml text/html]\n"},
			{"Silent(_repr_markdown_='# é', _repr_html_='<p>')", "# é\n[result: text/html text/markdown text/plain]\n"},
			{"Silent(_repr_mimebundle_={'application/json': {'a': [float('nan')]}})", "[result: application/json]\n"},
			{"display(Silent(_repr_png_=PNG), 'text', None, 3); print('after')", image + "[display: text/plain] 'text'\n[display: text/plain] None\n[display: text/plain] 3\nafter\n"},
			{"display({'image/png': PNG}, raw=True)", image},
			{"display({'text/html': '<p>'}, raw=True); _ = 5; display(6)", "[display: text/html]\n[display: text/plain] 6\n"},
			{"h = display(1, display_id='bar'); h.update(2); h.display(3); h", "[display bar: text/plain] 1\n[update bar: text/plain] 2\n[display bar: text/plain] 3\n<display bar>\n"},
			{"display(1, display_id=True).update(2)", "[display display-1: text/plain] 1\n[update display-1: text/plain] 2\n"},
			{"from turnstone import display as d, update_display, clear_output; d(1); update_display(2, display_id='never'); clear_output(); clear_output(wait=True)", "[display: text/plain] 1\n[update never: text/plain] 2\n[clear][clear]"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode(`import base64
PNG = b'\x89PNG\r\n\x1a\n'
class Silent:
    def __init__(self, **offers): self.offers = offers
for _name in 'png', 'mimebundle', 'html', 'svg', 'markdown', 'json', 'latex':
    _name = '_repr_%s_' % _name
    setattr(Silent, _name, lambda self, _name=_name, **options: self.offers.get(_name))
class Offers(Silent):
    def __repr__(self): return 'an Offers'`)
			for _, c := range cases {
				if r := w.RunCode(c.code); r.Transcript() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%s: got %q %v, want %q", c.code, r.Transcript(), r.Idle.Error, c.want)
				}
			}
		})
	})

	// Packages that display values, if the interpreter has them.
	t.Run("shows values of matplotlib, pandas and other packages", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{python: displayPython()}
		image := "[image image/png]"
		for name, cases := range map[string][]struct{ code, want string }{
			"matplotlib": {{"from matplotlib.figure import Figure; f = Figure(); f.subplots().plot([1]); display(f)", "[display figure-1: image/png text/plain] <Figure size 640x480 with 1 Axes>\n"}},
			"PIL": {
				{"from PIL import Image; im = Image.new('RGB', (9, 9)); im.show(); print('after')", image + "after\n"},
				{"im.convert('CMYK').show(); im.convert('F').show()", image + image},
				{"display(im.convert('L'), include=['image/png'])", image},
			},
			"IPython": {
				{"from IPython.display import Image, HTML, Markdown, display as show; import base64", ""},
				{"png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==')", ""},
				{"Image(png)", image},
				{"show(Image(png), 1); show(Markdown('# title'))", image + "[display: text/plain] 1\n[display: text/markdown text/plain] # title\n"},
				{"h = show(2, display_id='two'); h.update(3)", "[display two: text/plain] 2\n[update two: text/plain] 3\n"},
				{"from IPython.display import clear_output, update_display, JSON, SVG, Math, display_html", ""},
				{"update_display(4, display_id='two'); clear_output(wait=True)", "[update two: text/plain] 4\n[clear]"},
				{"HTML('<p>')", "[result: text/html]\n"},
				{"show(HTML('<p>'), JSON({'a': 1}), SVG('<svg/>'))", "[display: text/html]\n[display: application/json]\n[image image/svg+xml]"},
				{"show({'text/html': '<b>'}, raw=True, metadata={'text/html': {'isolated': True}})", "[display: text/html]\n"},
				{"Math('x^2')", "$\\displaystyle x^2$\n[result: text/latex text/plain]\n"},
			},
			"sympy": {
				{"from sympy.abc import x; x**2", "x**2\n[result: text/latex text/plain]\n"},
				{"sympy.init_printing(use_latex='mathjax'); x = sympy.symbols('x')", ""},
				{"sympy.sqrt(x) / 2", "√x\n──\n2 \n[result: text/latex text/plain]\n"},
				{"[x, 1]", "[x, 1]\n[result: text/latex text/plain]\n"},
				{"[1, 2]", "[1, 2]\n"},
				{"class H:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'H'\nH()", "H\n[result: text/html text/plain]\n"},
				{"sympy.init_printing(pretty_print=False, use_latex=False); sympy.sqrt(x)", "sqrt(x)\n"},
			},
			"pandas": {
				{"import pandas as pd; pd.DataFrame({'a': [1]})", "   a\n0  1\n[result: application/vnd.turnstone.table+json text/html text/plain]\n"},
				{"pd.Series([1])", "0    1\ndtype: int64\n"},
				{"pd.DataFrame({'a': [1]}).style", "[result: text/html]\n"},
			},
			"polars": {{"import polars as pl; len(repr(display(pl.DataFrame({'a': [1]}))))", "[display: application/vnd.turnstone.table+json text/html text/plain] shape: (1, 1)\n┌─────┐\n│ a   │\n│ --- │\n│ i64 │\n╞═════╡\n│ 1   │\n└─────┘\n4\n"}},
			"altair": {
				{"import sys; sys.modules['vl_convert'] = None", ""},
				{"import altair as alt; alt.Chart(alt.Data(values=[{'a': 1}])).mark_point()", "[result: application/vnd.vegalite.v6+json]\n"},
				{"import pandas as pd; big = alt.Chart(pd.DataFrame({'a': range(5001)})).mark_point().encode(x='a'); big.__class__.__repr__ = lambda self: 'a chart'; big", "a chart\n<err>[to_json() of Chart failed: MaxRowsError: The number of rows in your dataset (5001) is greater than the maximum allowed (5000).]\n</err>"},
			},
			"vl_convert": {
				{"import altair as alt; alt.Chart(alt.Data(values=[{'a': 1}]), title='T').mark_point()", "[result: application/vnd.vegalite.v6+json image/png image/svg+xml]\n"},
				{"display(alt.Chart(alt.Data(values=[{'a': 1}])).mark_point().encode(x='a:Q'))", "[display: application/vnd.vegalite.v6+json image/png image/svg+xml]\n"},
				{"import pandas as pd; alt.data_transformers.disable_max_rows(); alt.Chart(pd.DataFrame({'a': range(30000)})).mark_point().encode(x='a')", "[result: application/vnd.vegalite.v6+json image/png]\n"},
				{"alt.Chart('http://no-such-host.invalid/data.json').mark_point()", "[result: application/vnd.vegalite.v6+json]\n"},
				{"import vl_convert; vl_convert.vegalite_to_png = None; alt.Chart(alt.Data(values=[])).mark_point()", "[result: application/vnd.vegalite.v6+json]\n<err>[save() of Chart failed: TypeError: 'NoneType' object is not callable]\n</err>"},
			},
			"bokeh": {
				{"from bokeh.plotting import figure; p = figure(title='t'); _ = p.line([1], [2]); p", "[result: application/vnd.bokeh.v3+json]\n"},
				{"from bokeh.plotting import show; show(p)", "[display: application/vnd.bokeh.v3+json]\n"},
				{"from bokeh.layouts import row; show(row(p))", "[display: application/vnd.bokeh.v3+json]\n"},
				{"import os, tempfile, webbrowser; webbrowser.open = lambda *a, **o: True\nfrom bokeh.io import output_file; page = tempfile.mkstemp('.html')[1]; output_file(page); show(p); os.path.getsize(page) > 0", "True\n"},
				{"os.remove(page)", ""},
			},
			"great_tables": {{"import great_tables, pandas as pd; great_tables.GT(pd.DataFrame({'a': [1]}))", "   a\n0  1\n[result: text/html text/plain]\n"}},
			"plotly": {
				{"import plotly.graph_objects as go; f = go.Figure([go.Bar(y=[1]), go.Bar(y=[2])], layout={'title': 'Sales'})", ""},
				{"f.show()\nf", "[display: application/vnd.plotly.v1+json]\n[result: application/vnd.plotly.v1+json]\n"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, s)
				if w.RunCode("import "+name).Idle.Outcome != ipc.OutcomeOK {
					t.Skip(s.python + " has no " + name + ": scripts/setup-dev installs it")
				}
				for _, c := range cases {
					if r := w.RunCode(c.code); r.Transcript() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
						t.Errorf("%s: got %q, want %q", c.code, r.Transcript(), c.want)
					}
				}
			})
		}
	})

	// A display method may do anything. A failure causes a notice, never the end of the turn.
	t.Run("reports a failing display method as a notice", func(t *testing.T) {
		t.Parallel()
		cases := []struct{ body, want string }{
			{"raise ValueError('no\\nmore')", "[_repr_html_() of Bad failed: ValueError: no]"},
			{"raise SystemExit(3)", "[_repr_html_() of Bad failed: SystemExit: 3]"},
			{"raise NotImplementedError", ""}, // as in IPython
			{"return self._repr_html_()", "[_repr_html_() of Bad failed: RecursionError: maximum recursion depth exceeded"},
			{"print('said', 'this'); import sys; sys.stderr.write('and that\\n')", "[showing Bad printed: and that]"},
			{"display(self); return '<p>'", "[showing Bad printed: display() was called by a method for display]"},
			{"return b'<p>'", "[_repr_html_() of Bad: text/html is bytes, not text]"},
			{"return 7", "[_repr_html_() of Bad: text/html is int, not text]"},
			{"return 'x' * (17 << 20)", "[text/html of Bad, 17 MB, is left out: a result may have 16 MB]"},
			{"return '\\udc80'", ""},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range cases {
				code := "class Bad:\n    def __repr__(self): return 'a Bad'\n    def _repr_html_(self): " + c.body + "\nBad()"
				r := w.RunCode(code)
				if !strings.HasPrefix(r.OutputText(), "a Bad\n") || !strings.HasPrefix(r.ErrText(), c.want) || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%s: got %q %v, want %q", c.body, r.Transcript(), r.Idle.Error, c.want)
				}
			}
			if r := w.RunCode("class Bad:\n    def __repr__(self): raise ValueError('its own')\nBad()"); r.Idle.Outcome != ipc.OutcomeError {
				t.Errorf("a repr that raises is the turn's error, as everywhere in Python: got %q", r.Transcript())
			}
			if r := w.RunCode("class M(type):\n    def __getattr__(kind, name): raise KeyError(name)\nclass A(metaclass=M):\n    def __repr__(self): return 'an A'\nA()"); r.Transcript() != "an A\n" {
				t.Errorf("a metaclass that fails to look up a missing attribute: got %q", r.Transcript())
			}
			if r := w.RunCode("print('here'); 1"); r.Transcript() != "here\n1\n" {
				t.Errorf("after them: got %q", r.Transcript())
			}
		})
	})

	t.Run("sends every one of many displays", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: "python3"})
		r := w.RunCode("for i in range(10000): display(i)")
		n := 0
		for _, e := range r.Events {
			if d, ok := e.(ipc.Display); ok {
				if want := fmt.Sprint(n); string(d.Data["text/plain"]) != want {
					t.Fatalf("got %s, want %s", d.Data["text/plain"], want)
				}
				n++
			}
		}
		if n != 10000 || r.Idle.Outcome != ipc.OutcomeOK {
			t.Errorf("got %d displays, %+v", n, r.Idle)
		}
	})
}

// displayPython returns the interpreter for which scripts/setup-dev installs packages that display values.
func displayPython() string {
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "turnstone", "results", "bin", "python3")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return cmp.Or(os.Getenv("TURNSTONE_TEST_MATPLOTLIB"), "python3")
}

func TestText(t *testing.T) {
	t.Parallel()

	// The echo of a value and the report of an error are marked. Text that code writes is not.
	t.Run("marks echoed values and tracebacks, not printed text", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			kinds := func(code string) (all []string) {
				t.Helper()
				for _, e := range w.RunCode(code).Events {
					x, ok := e.(rawworker.MergedText)
					if last := len(all) - 1; ok && last >= 0 && strings.HasPrefix(all[last], string(x.Kind)+":") {
						all[last] += x.Data
					} else if ok {
						all = append(all, string(x.Kind)+":"+x.Data)
					}
				}
				return all
			}
			loud := "class Loud:\n    def __repr__(self):\n        print('from repr')\n        return 'Loud'\n"
			long := strings.Repeat("x", 5000)
			for code, want := range map[string][]string{
				"print(1); 2":             {":1\n", "result:2\n"},
				loud + "print(1)\nLoud()": {":1\nfrom repr\n", "result:Loud\n"},
				"'x' * 5000":              {"result:'" + long + "'\n"},
				"import sys; sys.stderr.write('a\\n'); None": {":a\n"},
			} {
				if got := kinds(code); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: got %.200q, want %.200q", code, got, want)
				}
			}
			got := kinds("import sys\nsys.stderr.write('before\\n')\n1/0")
			if len(got) != 2 || got[0] != ":before\n" || !strings.HasPrefix(got[1], "traceback:Traceback (most") || !strings.HasSuffix(got[1], "ZeroDivisionError: division by zero\n") {
				t.Errorf("got %q", got)
			}
			if got := kinds("print('after', file=sys.stderr); print('out')"); fmt.Sprint(got) != "[:after\nout\n]" {
				t.Errorf("got %q", got)
			}
		})
	})

	// A silent turn leaves no traces in the runtime.
	t.Run("a silent turn echoes nothing and leaves no traces", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("5")
			w.SendMessage(ipc.TurnStart{Turn: 100, Input: []byte("print('said'); 6"), Silent: true})
			var text string
			for {
				switch e := w.NextEvent().(type) {
				case rawworker.MergedText:
					text += e.Data
					continue
				case ipc.Idle:
				default:
					t.Fatalf("got %+v", e)
				}
				break
			}
			if text != "said\n" {
				t.Errorf("got %q", text)
			}
			w.Turn = 100
			w.RunCode("_").WantOutput(t, "5\n")
		})
	})
}

// An inspection runs no user code: no property, no repr, no __class__.
func TestInspect(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text   string // | is the cursor
		starts []string
	}{
		{"f|", []string{"Signature: f(a, b=2, *rest, c, d=…, **more)\nType: function\nFile: <cell 1>, line 1\n\nDoes f.\n\nMore.\n"}},
		{"x = f(1, g(2), |", []string{"Signature: f(a, b=2"}},
		{"C.m|ethod(", []string{"Signature: C.method(self, x)\n"}},
		{"c.m|ethod(", []string{"Signature: c.method(x)\nType: method\nFile: <cell 1>, line 9\n"}},
		{"c.made(|", []string{"Signature: c.made(x)\nType: method\n"}},
		{"C.made|", []string{"Signature: C.made(x)\nType: method\n"}},
		{"C.free|", []string{"Signature: C.free(x)\nType: function\n"}},
		{"C|", []string{"Signature: C(x=1)\nType: type\n\nThe class C.\n"}},
		{"len|", []string{"Signature: len(obj)\nType: builtin_function_or_method\n", "Signature: len(obj, /)\n"}},
		{"n|", []string{"Type: int\nValue: 7\n"}},
		{"os.path|", []string{"Type: module\nFile: "}},
		{"trap|", []string{"Type: Trap\n\nA trap.\n"}},
		{"trap.prop|", []string{""}},
		{"trap.other|", []string{""}},
		{"nothing|", []string{""}},
		{"1 + |", []string{""}},
		{"|", []string{""}},
		{"é.|", []string{""}},
	}
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.RunCode(`def f(a, b=2, *rest, c, d=[], **more):
    """Does f.

    More.
    """
class C:
    "The class C."
    def __init__(self, x=1): pass
    def method(self, x): pass
    @classmethod
    def made(cls, x): pass
    @staticmethod
    def free(x): pass
c = C()
ran = []
class Trap:
    "A trap."
    def __repr__(self): ran.append('repr'); return ''
    def __getattr__(self, name): ran.append('getattr')
    @property
    def prop(self): ran.append('property')
    @property
    def __class__(self): ran.append('class'); return int
n, trap = 7, Trap()
import os`)
		for i, c := range cases {
			at := strings.Index(c.text, "|")
			w.SendMessage(ipc.Query{ID: uint64(i), Kind: ipc.QueryInspect, Text: strings.Replace(c.text, "|", "", 1), Cursor: uint64(at)})
			m, ok := w.NextEvent().(ipc.QueryResult)
			got := string(m.Data["text/plain"])
			good := false
			for _, want := range c.starts {
				good = good || strings.HasPrefix(got, want) && (want == "") == (got == "")
			}
			if !ok || m.Status != ipc.StatusOK || !good {
				t.Errorf("%s: got %q %+v, want %q", c.text, got, m.Status, c.starts)
			}
		}
		w.RunCode("ran").WantOutput(t, "[]\n")
	})
}

func TestErrorHints(t *testing.T) {
	t.Parallel()

	t.Run("suggests Python for shell commands and magics", func(t *testing.T) {
		t.Parallel()
		shell, plain := "[this is plain Python and no shell: ", "[this is plain Python"
		cases := []struct{ code, want string }{
			{"!ls -la", shell + "subprocess.run('ls -la', shell=True) runs a command]"},
			{"x = 1\nfiles = !ls", shell + "subprocess.run('ls', shell=True) runs a command]"},
			{"$ git status", shell + "subprocess.run('git status', shell=True) runs a command]"},
			{"git status", shell + "subprocess.run('git status', shell=True) runs a command]"},
			{"ls", shell + "subprocess.run('ls', shell=True) runs a command]"},
			{"x = 1\nls -la", shell + "subprocess.run('ls -la', shell=True) runs a command]"},
			{"cd /tmp", shell + "os.chdir('/tmp') changes the directory]"},
			{"pip install x", shell + "subprocess.run([sys.executable, '-m', 'pip', 'install', 'x']) runs pip]"},
			{"!pip install x", shell + "subprocess.run([sys.executable, '-m', 'pip', 'install', 'x']) runs pip]"},
			{"%pip install x", shell + "subprocess.run([sys.executable, '-m', 'pip', 'install', 'x']) runs pip]"},
			{"%timeit f(1)", plain + ", without magics: timeit.timeit(lambda: f(1), number=1000) measures]"},
			{"%matplotlib inline\n1", plain + ", without magics: figures are shown without it]"},
			{"%%bash\nls", plain + ", without magics: subprocess.run(..., shell=True) runs a command]"},
			{"%load_ext x", plain + ", without magics: what begins with % is IPython's]"},
			{"len?", plain + ": help(len) tells about it]"},
			{"```python\nx = 1\n```", "[the input has Markdown fences (```): send the code without them]"},
			{">>> 1 + 1\n2", "[the input has prompts (>>>): send the code without them]"},
			{"!" + strings.Repeat("x", 1000), shell + "subprocess.run('" + strings.Repeat("x", 100) + "…', shell=True) runs a command]"},
			// Errors of Python.
			{"x = = 1", ""}, {"f(", ""}, {"undefined", ""}, {"def f(): ls\nf()", ""}, {"ls_ = 1; print(cat)", ""},
			{"exec('!ls')", ""}, {"raise NameError('name \\'ls\\' is not defined')", ""},
			{"ls = 3\nls -ls", ""}, // valid
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range cases {
				r := w.RunCode(c.code)
				lines := strings.Split(strings.TrimSuffix(r.ErrText(), "\n"), "\n")
				last := lines[len(lines)-1]
				if c.want != "" && (last != c.want || len(lines) < 3) || c.want == "" && strings.HasPrefix(last, "[") {
					t.Errorf("%q: got %q, want %q", c.code, r.Transcript(), c.want)
				}
				w.RunCode("globals().pop('ls', None); None")
			}
		})
	})

	// A user's file with the name of a standard library module is for the user's own imports, not for
	// the worker's.
	t.Run("imports no module from the working directory", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			errors := func(w *worker) string {
				var all strings.Builder
				for _, code := range []string{
					"class É: pass", "def raises(): return 1 / 0", "raises()", "x = = 1", "f(", "undefined_name", "É().attribute", "'é日本' + 1/0",
					"import nothing_here", "from sys import exiit", "await nothing", "try: 1/0\nexcept Exception as e: raise ValueError from e",
					"raise ExceptionGroup('g', [ValueError(1)])", "raise SyntaxError('é', ('file', 1, 1, 'é日 x', 1, 3))",
				} {
					all.WriteString(w.RunCode(code).Transcript())
				}
				w.SendMessage(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: "for x in y:"})
				if m, ok := w.NextEvent().(ipc.QueryResult); !ok || m.Status != ipc.StatusIncomplete {
					t.Errorf("got %+v", m)
				}
				return all.String()
			}
			plain := startWorker(t, s)
			want := errors(plain)
			names := plain.RunCode("import os\nfor n in os.listdir(os.path.dirname(os.__file__)): print(n.partition('.')[0])")
			s.Dir = t.TempDir()
			for name := range strings.FieldsSeq(names.OutputText()) {
				if err := os.WriteFile(filepath.Join(s.Dir, name+".py"), []byte("import os; os.write(1, b'the "+name+" of the user\\n')"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := errors(startWorker(t, s)); got != want {
				t.Errorf("got  %q,\nwant %q", got, want)
			}
		})
	})
}

func TestChangedImportNotice(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		s.Dir = t.TempDir()
		write := func(name, text string) {
			t.Helper()
			path := filepath.Join(s.Dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("mine.py", "x = 1")
		write("parts/__init__.py", "")
		write("parts/one.py", "x = 1")
		write("site-packages/theirs.py", "x = 1")
		w := startWorker(t, s)
		wants := func(code, want string) {
			t.Helper()
			if r := w.RunCode(code); r.Transcript() != want {
				t.Errorf("%s: got %q, want %q", code, r.Transcript(), want)
			}
		}
		wants("import sys; sys.path.append('site-packages'); import mine, parts.one, theirs, importlib; mine.x", "1\n")
		wants("mine.x", "1\n")
		write("mine.py", "x = 22")
		write("site-packages/theirs.py", "x = 22")
		wants("mine.x", "1\n<err>[mine.py changed since it was imported: importlib.reload(mine) takes it in]\n</err>")
		wants("mine.x", "1\n")
		wants("importlib.reload(mine); mine.x", "22\n")
		write("mine.py", "x = 2")
		wants("importlib.reload(mine); mine.x", "2\n")
		wants("_ = open('mine.py', 'w').write('x = 2345'); mine.x", "2\n<err>[mine.py changed since it was imported: importlib.reload(mine) takes it in]\n</err>")
		wants("_ = open('mine.py', 'w').write('x = 23456'); importlib.reload(mine); mine.x", "23456\n")
		wants("_ = open('new.py', 'w').write('x = 1'); importlib.invalidate_caches(); import new; _ = open('new.py', 'w').write('x = 22'); new.x", "1\n<err>[new.py changed since it was imported: importlib.reload(new) takes it in]\n</err>")
		wants("del sys.modules['new']; import new; new.x", "22\n")
		write("mine.py", "x = 333")
		write("parts/one.py", "x = 333")
		if r := w.RunCode("x = = 1"); strings.Contains(r.OutputText(), "changed") {
			t.Errorf("an input that does not run: got %q", r.Transcript())
		}
		wants("1", "1\n<err>[mine.py, parts/one.py changed since they were imported: importlib.reload() takes each in]\n</err>")
		write("mine.py", "x = 4444")
		wants("2", "2\n<err>[mine.py changed since it was imported: importlib.reload(mine) takes it in]\n</err>")
		if err := os.Remove(filepath.Join(s.Dir, "mine.py")); err != nil {
			t.Fatal(err)
		}
		wants("3", "3\n")
	})
}
