//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// patches are what tests of user code leave in place when they fail.
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
places = [] # are found before any is replaced: Python 3.15 may import what a name stands for
for module in list(sys.modules.values()):
    if getattr(module, '__name__', '') in ('linecache', 'tokenize', 'traceback', 'inspect', 'posixpath', 'importlib', 'os', 'io'): continue
    for name, value in list(getattr(module, '__dict__', {}).items()):
        if type(value) is types.ModuleType and value in fakes:
            places.append((module, name, fakes[value]))
        elif callable(value) and type(value) is types.BuiltinFunctionType and value.__module__ in ('posix', 'time', 'select') and module is not sys:
            places.append((module, name, broken))
for place in places: setattr(*place)`,
}

func TestPatchedModules(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, patch := range monkeyPatches {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, s)
				w.Run("import linecache, traceback, tokenize; 1/0")
				if r := w.Run(patch + "\n_ = [1]"); r.Idle == nil || r.Out() != "" {
					t.Fatalf("got %.2000q %+v %+v", r.Script(), r.Idle, r.End)
				}
				w.Run("1+1").Wants(t, "2\n")
				w.Run("print('x' * 5000 == '', 3)").Wants(t, "False 3\n")
				if r := w.Run("input('? ')", "answer"); r.Out() != "? 'answer'\n" {
					t.Errorf("got %q", r.Script())
				}
				if r := w.Run("1/0"); !strings.Contains(r.ErrText(), "ZeroDivisionError") {
					t.Errorf("got %q", r.Script())
				}
				if r := w.Run("class H:\n    def _repr_html_(self): return '<b>h</b>'\n    def __repr__(self): return 'H()'\nH()"); !strings.Contains(r.Script(), "text/html") {
					t.Errorf("got %q", r.Script())
				}
				w.Begin("print('up')\nwhile True: pass")
				w.Await("up\n")
				if r := w.interruptUntil(1, 1, nil); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted {
					t.Errorf("got %q %+v", r.Script(), r.Idle)
				}
				w.Run("'still'").Wants(t, "'still'\n")
				if r := w.Run("exit(3)"); r.End == nil || r.End.Code == nil || *r.End.Code != 3 {
					t.Errorf("got %q %+v", r.Script(), r.End)
				}
			})
		}
		t.Run("nothing of the worker is in sys.modules", func(t *testing.T) {
			t.Parallel()
			startWorker(t, s).Run("import sys; [n for n in sys.modules if 'turnstone' in n]").Wants(t, "[]\n")
		})
		t.Run("a step that a patch makes fail has a bound", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			r := w.Run(`import gc
W = next(type(o) for o in gc.get_objects() if type(o).__name__ == 'Worker')
def rest(self): raise OSError('not ours')
W.rest = rest`)
			for r.End == nil {
				if end, ok := w.Next().(ipc.SessionEnd); ok {
					r.End = &end
				}
			}
			if r.End.Message != "the worker fails: OSError: not ours" {
				t.Errorf("got %+v", r.End)
			}
		})
	})
}
