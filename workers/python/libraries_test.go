//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestLibraries(t *testing.T) {
	t.Parallel()

	// Libraries that read the source of a function from a file find the source of an input.
	t.Run("libraries find the source of an input", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			inputs []string
			want   []string // within the output of the last one
		}{
			"rich": {[]string{
				"import io, rich.console\ndef f():\n    return 1 / 0",
				"try: f()\nexcept ZeroDivisionError:\n    c = rich.console.Console(file=io.StringIO()); c.print_exception(); print(c.file.getvalue())",
			}, []string{"❱ 3 │   return 1 / 0", "❱ 1 try: f()"}},
			"pysnooper": {[]string{"import io, pysnooper\no = io.StringIO()\n@pysnooper.snoop(o)\ndef f(x):\n    return x + 1", "_ = f(1); print(o.getvalue())"}, []string{"return x + 1"}},
			"loguru": {[]string{
				"import loguru, sys; loguru.logger.remove(); _ = loguru.logger.add(sys.stdout, colorize=False)",
				"def f(): return 1 / 0\ntry: f()\nexcept ZeroDivisionError: loguru.logger.exception('said')",
			}, []string{"said\nTraceback (most recent call last):\n\n> File \"<cell 3>\", line 2, in <module>\n"}},
			"numba": {[]string{
				"import os, tempfile; os.environ['XDG_CACHE_HOME'] = tempfile.mkdtemp(dir='.')\nimport numba",
				"@numba.njit(cache=True)\ndef f(x):\n    return x + 1",
				"f(1)",
			}, []string{"2\n"}},
			"joblib": {[]string{
				"import joblib, tempfile; m = joblib.Memory(tempfile.mkdtemp(dir='.'), verbose=0)",
				"@m.cache\ndef f(x): print('computed'); return x",
				"f(1)",
				"@m.cache\ndef f(x): print('computed'); return x",
				"print('again', f(1))",
			}, []string{"again 1\n"}},
			"dill": {[]string{"import dill.source\ndef shown(f):\n    print(dill.source.getsource(f)); return f", "@shown\ndef f(x):\n    y = x + 2\n    return y * 2\nclass C:\n    def m(self): return 7\nprint(dill.source.getsource(C))"}, []string{"    y = x + 2\n    return y * 2\n", "    def m(self): return 7\n"}},
			"typeguard": {[]string{
				"import typeguard",
				"@typeguard.typechecked\ndef f(x: int): return x\n@typeguard.typechecked\nclass C:\n    def m(self, x: int): return x",
				"for g in f, C().m:\n    try: g('a')\n    except typeguard.TypeCheckError as e: print(e)\nf(1)",
			}, []string{"argument \"x\" (str) is not an instance of int\nargument \"x\" (str) is not an instance of int\n1\n"}},
			"line_profiler": {[]string{"import line_profiler\np = line_profiler.LineProfiler()\n@p\ndef f():\n    return 5", "_ = f(); p.print_stats()"}, []string{"return 5"}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := workerSetup{python: displayPython()}
				s.Dir = t.TempDir()
				w := startWorker(t, s)
				if w.RunCode("import "+name).Idle.Outcome != ipc.OutcomeOK {
					t.Skip(s.python + " has no " + name + ": scripts/setup-dev installs it")
				}
				var r result
				for _, input := range c.inputs {
					if r = w.RunCode(input); r.Idle.Outcome != ipc.OutcomeOK {
						t.Fatalf("%q: got %q", input, r.Transcript())
					}
				}
				for _, want := range c.want {
					if !strings.Contains(r.OutputText(), want) || strings.Contains(r.OutputText(), "computed") {
						t.Errorf("got %q, want %q", r.OutputText(), want)
					}
				}
			})
		}
	})

	// An event loop without Python frames is interrupted like asyncio's own.
	t.Run("an interrupt of uvloop shows the input in its traceback", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{python: displayPython()}
		w := startWorker(t, s)
		if w.RunCode("import asyncio, uvloop; uvloop.install()").Idle.Outcome != ipc.OutcomeOK {
			t.Skip(s.python + " has no uvloop: scripts/setup-dev installs it")
		}
		w.StartTurn("asyncio.get_running_loop().call_later(0.01, print, 'up')\nawait asyncio.sleep(100)")
		w.WaitOutput("up")
		r := w.interruptUntil(1, 1, nil)
		if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.Contains(r.ErrText(), "line 2, in <module>\n    await asyncio.sleep(100)\n") || strings.Contains(r.ErrText(), "uvloop") {
			t.Errorf("got %+v %q", r.Idle, r.ErrText())
		}
		w.RunCode("await asyncio.sleep(0, 'after')").WantOutput(t, "'after'\n")
	})
}
