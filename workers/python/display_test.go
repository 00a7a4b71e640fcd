//go:build linux || darwin

package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestDisplay_ShowsWhatValuesOfferForIt(t *testing.T) {
	t.Parallel()
	picture := "[image image/png]"
	cases := []struct{ code, want string }{
		{"Offers(_repr_png_=base64.b64encode(PNG).decode())", picture},
		{"Offers(_repr_png_='no picture')", "an Offers\n"},
		{"Offers(_repr_mimebundle_={'image/png': PNG, 'text/plain': 'no'})", picture},
		{"Offers(_repr_mimebundle_=({'image/png': base64.b64encode(PNG).decode()}, {}))", picture},
		{"Offers(_repr_mimebundle_={'text/html': '<p>', 'text/plain': 'plain'})", "plain\n"},
		{"Offers(_repr_mimebundle_={'text/html': '<p>'})", "[Offers: text/html, which cannot be shown here]\n"},
		{"Offers(_repr_mimebundle_={}, _repr_png_=PNG)", picture},
		{"Offers(_repr_html_='<p>')", "an Offers\n"}, // its own repr says more
		{"Silent(_repr_html_='<p>é')", "[Silent: 4 characters of text/html, which cannot be shown here]\n"},
		{"Silent(_repr_svg_='<svg/>', _repr_html_='<p>')", "[Silent: 6 characters of image/svg+xml, which cannot be shown here]\n"},
		{"Silent(_repr_markdown_='# é', _repr_html_='<p>')", "# é\n"},
		{"display(Offers(_repr_png_=PNG), 'text', None, 3); print('after')", picture + "'text'\nNone\n3\nafter\n"},
		{"display({'image/png': PNG}, raw=True)", picture},
		{"display({'text/html': '<p>'}, raw=True); _ = 5; display(6)", "[value: text/html, which cannot be shown here]\n6\n"},
	}
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.Run(`import base64
PNG = b'\x89PNG\r\n\x1a\n'
class Silent:
    def __init__(self, **offers): self.offers = offers
for _name in 'png', 'mimebundle', 'html', 'svg', 'markdown':
    _name = '_repr_%s_' % _name
    setattr(Silent, _name, lambda self, _name=_name, **options: self.offers.get(_name))
class Offers(Silent):
    def __repr__(self): return 'an Offers'`)
		for _, c := range cases {
			if r := w.Run(c.code); r.Script() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("%s: got %q %v, want %q", c.code, r.Script(), r.Idle.Error, c.want)
			}
		}
	})
}

// The packages that show things, where the interpreter has them.
func TestDisplay_TeachesThePackagesThatShowThings(t *testing.T) {
	t.Parallel()
	s := setup{python: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")}
	if s.python == "" {
		s.python = "python3"
	}
	picture := "[image image/png]"
	for name, cases := range map[string][]struct{ code, want string }{
		"matplotlib": {{"from matplotlib.figure import Figure; f = Figure(); f.subplots().plot([1]); display(f)", picture}},
		"PIL": {
			{"from PIL import Image; im = Image.new('RGB', (9, 9)); im.show(); print('after')", picture + "after\n"},
			{"im.convert('CMYK').show(); im.convert('F').show()", picture + picture},
			{"im.convert('L')", picture},
		},
		"IPython": {
			{"from IPython.display import Image, HTML, Markdown, display as show; import base64", ""},
			{"png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==')", ""},
			{"Image(png)", picture},
			{"show(Image(png), 1); show(Markdown('# title'))", picture + "1\n# title\n"},
			{"h = show(2, display_id='two'); h.update(3)", "2\n3\n"},
			{"HTML('<p>')", "[HTML: 3 characters of text/html, which cannot be shown here]\n"},
		},
		"plotly": {
			{"import plotly.graph_objects as go; f = go.Figure([go.Bar(y=[1]), go.Bar(y=[2])], layout={'title': 'Sales'})", ""},
			{"f.show()\nf", strings.Repeat("[plotly Figure of 2 traces: bar: Sales; a picture of it needs the package kaleido]\n", 2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, s)
			if w.Run("import "+name).Idle.Outcome != ipc.OutcomeOK {
				t.Skip("python3 has no " + name + ": name an interpreter that has it in TURNSTONE_TEST_MATPLOTLIB")
			}
			for _, c := range cases {
				if r := w.Run(c.code); r.Script() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%s: got %q, want %q", c.code, r.Script(), c.want)
				}
			}
		})
	}
}

func TestErrors_OfWhatIsNotPythonSaySo(t *testing.T) {
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
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for _, c := range cases {
			r := w.Run(c.code)
			lines := strings.Split(strings.TrimSuffix(r.ErrText(), "\n"), "\n")
			last := lines[len(lines)-1]
			if c.want != "" && (last != c.want || len(lines) < 3) || c.want == "" && strings.HasPrefix(last, "[") {
				t.Errorf("%q: got %q, want %q", c.code, r.Script(), c.want)
			}
			w.Run("globals().pop('ls', None); None")
		}
	})
}

func TestImports_WhatHasChangedSinceIsSaidOnce(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s setup) {
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
		w := start(t, s)
		wants := func(code, want string) {
			t.Helper()
			if r := w.Run(code); r.Script() != want {
				t.Errorf("%s: got %q, want %q", code, r.Script(), want)
			}
		}
		wants("import sys; sys.path.append('site-packages'); import mine, parts.one, theirs, importlib; mine.x", "1\n")
		wants("mine.x", "1\n")
		write("mine.py", "x = 22")
		write("site-packages/theirs.py", "x = 22")
		wants("mine.x", "<err>[mine.py changed since it was imported: importlib.reload(mine) takes it in]\n</err>1\n")
		wants("mine.x", "1\n")
		wants("importlib.reload(mine); mine.x", "22\n")
		write("mine.py", "x = 333")
		write("parts/one.py", "x = 333")
		if r := w.Run("x = = 1"); strings.Contains(r.Out(), "changed") {
			t.Errorf("an input that does not run: got %q", r.Script())
		}
		wants("1", "<err>[mine.py, parts/one.py changed since they were imported: importlib.reload() takes each in]\n</err>1\n")
		write("mine.py", "x = 4444")
		wants("2", "<err>[mine.py changed since it was imported: importlib.reload(mine) takes it in]\n</err>2\n")
		if err := os.Remove(filepath.Join(s.Dir, "mine.py")); err != nil {
			t.Fatal(err)
		}
		wants("3", "3\n")
	})
}

// A file of the user's that has the name of a module of the standard library is
// for the user's own imports, and not for what the worker does.
func TestErrors_ImportNothingFromTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s setup) {
		errors := func(w *worker) string {
			var all strings.Builder
			for _, code := range []string{
				"class É: pass", "def raises(): return 1 / 0", "raises()", "x = = 1", "f(", "undefined_name", "É().attribute", "'é日本' + 1/0",
				"import nothing_here", "from sys import exiit", "await nothing", "try: 1/0\nexcept Exception as e: raise ValueError from e",
				"raise ExceptionGroup('g', [ValueError(1)])", "raise SyntaxError('é', ('file', 1, 1, 'é日 x', 1, 3))",
			} {
				all.WriteString(w.Run(code).Script())
			}
			w.Tell(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: "for x in y:"})
			if m, ok := w.Next().(ipc.QueryResult); !ok || m.Status != ipc.StatusIncomplete {
				t.Errorf("got %+v", m)
			}
			return all.String()
		}
		plain := start(t, s)
		want := errors(plain)
		names := plain.Run("import os\nfor n in os.listdir(os.path.dirname(os.__file__)): print(n.partition('.')[0])")
		s.Dir = t.TempDir()
		for name := range strings.FieldsSeq(names.Out()) {
			if err := os.WriteFile(filepath.Join(s.Dir, name+".py"), []byte("import os; os.write(1, b'the "+name+" of the user\\n')"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := errors(start(t, s)); got != want {
			t.Errorf("got  %q,\nwant %q", got, want)
		}
	})
}
