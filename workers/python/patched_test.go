//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// monkeyPatches are patches that failing tests of user code leave behind.
var monkeyPatches = map[string]string{
	"the functions of modules": `
import builtins, errno, io, os, select, socket, sys, threading, time
def broken(*a, **k): raise OSError(errno.EBADF, 'patched')
for module in os, io, select, time, socket, threading:
    for name, value in list(vars(module).items()):
        if callable(value) and not name.startswith('_') and not (isinstance(value, type) and issubclass(value, BaseException)) and name not in ('fspath', 'register_at_fork', 'current_thread', 'get_ident', 'main_thread', 'Lock', 'RLock', 'fsencode', 'fsdecode', 'IncrementalNewlineDecoder', 'StringIO'):
            setattr(module, name, broken)
builtins.open = broken`,
	"modules in modules": `
import errno, io, os, select, sys, time, types
def broken(*a, **k): raise OSError(errno.EBADF, 'patched')
fakes = {}
for real in os, io, select, time:
    fakes[real] = fake = types.ModuleType(real.__name__)
    vars(fake).update((n, broken if callable(v) and not isinstance(v, type) else v) for n, v in vars(real).items())
targets = [] # found before any is replaced: Python 3.15 may import what a name stands for
for module in list(sys.modules.values()):
    if getattr(module, '__name__', '') in ('linecache', 'tokenize', 'traceback', 'inspect', 'posixpath', 'importlib', 'os', 'io'): continue
    for name, value in list(getattr(module, '__dict__', {}).items()):
        if type(value) is types.ModuleType and value in fakes:
            targets.append((module, name, fakes[value]))
        elif callable(value) and type(value) is types.BuiltinFunctionType and value.__module__ in ('posix', 'time', 'select') and module is not sys:
            targets.append((module, name, broken))
for target in targets: setattr(*target)`,
}

func TestPatchedModules(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, patch := range monkeyPatches {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, s)
				w.RunCode("import linecache, traceback, tokenize; 1/0")
				if r := w.RunCode(patch + "\n_ = [1]"); r.Idle == nil || r.OutputText() != "" {
					t.Fatalf("got %.2000q %+v %+v", r.Transcript(), r.Idle, r.End)
				}
				w.RunCode("1+1").WantOutput(t, "2\n")
				w.RunCode("print('x' * 5000 == '', 3)").WantOutput(t, "False 3\n")
				if r := w.RunCode("input('? ')", "answer"); r.OutputText() != "? 'answer'\n" {
					t.Errorf("got %q", r.Transcript())
				}
				if r := w.RunCode("1/0"); !strings.Contains(r.ErrText(), "ZeroDivisionError") {
					t.Errorf("got %q", r.Transcript())
				}
				if r := w.RunCode("class H:\n    def _repr_html_(self): return '<b>h</b>'\n    def __repr__(self): return 'H()'\nH()"); !strings.Contains(r.Transcript(), "text/html") {
					t.Errorf("got %q", r.Transcript())
				}
				w.StartTurn("print('up')\nwhile True: pass")
				w.WaitOutput("up\n")
				if r := w.interruptUntil(1, 1, nil); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted {
					t.Errorf("got %q %+v", r.Transcript(), r.Idle)
				}
				w.RunCode("'still'").WantOutput(t, "'still'\n")
				if r := w.RunCode("exit(3)"); r.End == nil || r.End.Code == nil || *r.End.Code != 3 {
					t.Errorf("got %q %+v", r.Transcript(), r.End)
				}
			})
		}
		t.Run("no module of the worker is in sys.modules", func(t *testing.T) {
			t.Parallel()
			startWorker(t, s).RunCode("import sys; [n for n in sys.modules if 'turnstone' in n]").WantOutput(t, "[]\n")
		})
		t.Run("a step that fails because of a patch is retried only a few times", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			r := w.RunCode(`import gc
W = next(type(o) for o in gc.get_objects() if type(o).__name__ == 'Worker')
def rest(self): raise OSError('not ours')
W.rest = rest`)
			for r.End == nil {
				if end, ok := w.NextEvent().(ipc.SessionEnd); ok {
					r.End = &end
				}
			}
			if r.End.Message != "the worker fails: OSError: not ours" {
				t.Errorf("got %+v", r.End)
			}
		})
	})
}
