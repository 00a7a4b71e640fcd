//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestFrames(t *testing.T) {
	t.Parallel()

	// Code that inspects frames sees no frame of the worker.
	t.Run("hides the frames of the worker", func(t *testing.T) {
		t.Parallel()
		const stream = `import inspect, io, sys, traceback
class W(io.StringIO):
    seen = []
    def write(self, text):
        if text.strip():
            f = sys._getframe(1)
            self.seen.append((f.f_code.co_name, inspect.currentframe().f_back.f_code.co_name, inspect.stack()[1].function, traceback.extract_stack()[-2].name))
        return len(text)
class S:
    def __str__(self):
        self.seen = sys._getframe(1).f_code.co_name, inspect.stack()[1].function, traceback.extract_stack()[-2].name
        return 'S'
def caller(*what, **how): print(*what, **how)
`
		eachPython(t, func(t *testing.T, s workerSetup) {
			for name, inputs := range map[string][][2]string{
				"a stream's write seems to be called by the code that prints": {
					{stream, ""},
					{"sys.stdout = W(); caller('x'); sys.stdout = sys.__stdout__; W.seen", "[('caller', 'caller', 'caller', 'caller')]\n"},
					{"del W.seen[:]; caller('x', file=W()); [(a, c, d) for a, b, c, d in W.seen]", "[('caller', 'caller', 'caller')]\n"},
				},
				"so is __str__": {
					{stream, ""},
					{"one = S(); caller(one); two = S(); caller(1, two); one.seen, two.seen", "S\n1 S\n(('caller', 'caller', 'caller'), ('caller', 'caller', 'caller'))\n"},
				},
				"an error in __str__ has no other frames": {
					{"import traceback\nclass B:\n    def __str__(self): raise ValueError('no')", ""},
					{"try: print(1, B())\nexcept ValueError: print(traceback.format_exc().count('File'), traceback.format_exc().count('<cell '))", "1 2 2\n"},
				},
				"the stack begins with the input": {
					{"import inspect, logging, sys, traceback, warnings", ""},
					{"traceback.print_stack()", "  File \"<cell 2>\", line 1, in <module>\n    traceback.print_stack()\n"},
					{"def f(): return [x.function for x in inspect.stack()], len(traceback.extract_stack()), len(traceback.StackSummary.extract(traceback.walk_stack(None)))\nf()", "(['f', '<module>'], 2, 2)\n"},
					{"try: sys._getframe(1)\nexcept ValueError as e: print(e)", "call stack is not deep enough\n"},
					{"with warnings.catch_warnings(record=True) as w: warnings.warn('deep', stacklevel=2)\nw[0].filename.strip('<>')", "'sys'\n"},
					{"logging.warning('said', stack_info=True)", "WARNING:root:said\nStack (most recent call last):\n  File \"<cell 6>\", line 1, in <module>\n    logging.warning('said', stack_info=True)\n"},
				},
				"the stack begins with an input that awaits": {
					{"import asyncio, inspect, sys, traceback, warnings", ""},
					{"await asyncio.sleep(0); traceback.print_stack()", "  File \"<cell 2>\", line 1, in <module>\n    await asyncio.sleep(0); traceback.print_stack()\n"},
					{"await asyncio.sleep(0); len(inspect.stack())", "1\n"},
					{"await asyncio.sleep(0); task = asyncio.current_task(); 'worker' in repr(task), 'Loops' in repr(task)", "(False, False)\n"},
				},
				"a debugger that replaces settrace is not called, and continues in the next input": {
					{"import sys\nnative, seen = sys.settrace, []\nsys.settrace = lambda f: print('called')\nnative(lambda *a: seen.append(1))", ""},
					{"def f(): pass\nn = len(seen); f(); len(seen) > n", "True\n"},
					{"native(None); sys.settrace = native", ""},
				},
				"traced code has names in brackets": {
					{"import sys\nfiles = set()\ndef trace(f, e, a): files.add(f.f_code.co_filename)\nsys.settrace(trace); print(1); print(1, 2, file=sys.stderr); sys.settrace(None)\n[f for f in files if f[0] != '<']", "1\n1 2\n[]\n"},
				},
			} {
				t.Run(name, func(t *testing.T) { t.Parallel(); wantOutputs(t, s, inputs...) })
			}
			t.Run("a debugger steps to the end of the input", func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, s)
				r := w.RunCode("import asyncio\nawait asyncio.sleep(0)\nbreakpoint()\nx = 1", "n", "n", "n")
				if got := r.OutputText(); strings.Contains(got, "asyncio/") || strings.Contains(got, "turnstone") || r.Idle == nil {
					t.Errorf("got %q", got)
				}
				w.RunCode("x").WantOutput(t, "1\n")
			})
			t.Run("a debugger shows the input alone", func(t *testing.T) {
				t.Parallel()
				for _, code := range []string{"import asyncio\nawait asyncio.sleep(0); breakpoint()\nx = 1", "breakpoint()\nx = 1", "def f():\n    breakpoint()\n    return 1\nf()"} {
					w := startWorker(t, s)
					r := w.RunCode(code, "w", "c")
					if got := r.OutputText(); strings.Contains(got, "turnstone") || strings.Contains(got, "asyncio/") || strings.Contains(got, "boot") || !strings.Contains(got, "<cell 1>") {
						t.Errorf("%q: got %q", code, got)
					}
				}
			})
		})
	})

	// A step after the last line of an input with an await ends the input.
	t.Run("the debugger can step out of an input with an await", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import asyncio")
			r := w.RunCode("breakpoint(); await asyncio.sleep(0)", "n", "n", "n", "n", "n")
			if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeOK || strings.Contains(r.OutputText(), "Internal") {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})
}
