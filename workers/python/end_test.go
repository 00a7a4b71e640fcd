//go:build linux || darwin

package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

// waitStatus waits for the worker's process.
func (w *worker) waitStatus() syscall.WaitStatus {
	w.t.Helper()
	w.Cmd.Wait()
	return w.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestExitHandlers(t *testing.T) {
	t.Parallel()

	t.Run("reports the exit after the exit handlers", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			for _, c := range []struct {
				code    string
				want    int64
				message string
				out     string
			}{
				{"import sys; sys.exit(3)", 3, "", "thread\nbye\n"},
				{"import sys; sys.exit('a message')", 1, "a message", "a message\nthread\nbye\n"},
				{"quit()", 0, "", "thread\nbye\n"},
				{"exit(0)", 0, "", "thread\nbye\n"},
				{"raise SystemExit", 0, "", "thread\nbye\n"},
			} {
				w := startWorker(t, s)
				w.RunCode("import atexit, threading, time; atexit.register(print, 'bye')\nmain = threading.main_thread()\ndef thread():\n    while main.is_alive(): time.sleep(0.01)\n    print('thread')\nthreading.Thread(target=thread).start()")
				r := w.RunCode(c.code)
				if r.End == nil || r.End.Reason != ipc.EndExit || r.End.Code == nil || *r.End.Code != c.want || r.End.Message != c.message {
					t.Fatalf("%s: got %+v %q", c.code, r.End, r.Transcript())
				}
				if r.OutputText() != c.out || r.Idle != nil {
					t.Errorf("%s: got %q, idle %+v; want %q", c.code, r.OutputText(), r.Idle, c.out)
				}
				if got := w.waitStatus().ExitStatus(); got != int(c.want) {
					t.Errorf("%s: exit status %d", c.code, got)
				}
			}
		})
	})

	// Code that runs or clears the exit handlers does not end the worker, and the worker still
	// reports its later end.
	t.Run("code may run or clear the exit handlers itself", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			for code, out := range map[string]string{"atexit._run_exitfuncs()": "bye\n", "atexit._clear()": ""} {
				w := startWorker(t, s)
				w.RunCode("import atexit\n_ = atexit.register(print, 'bye')\n"+code).WantOutput(t, out)
				w.RunCode("_ = atexit.register(print, 'later'); 1").WantOutput(t, "1\n")
				if r := w.RunCode("exit(4)"); r.End == nil || r.End.Code == nil || *r.End.Code != 4 || r.OutputText() != "later\n" {
					t.Errorf("%s: got %+v %q", code, r.End, r.Transcript())
				}
				w = startWorker(t, s)
				if r := w.RunCode("import atexit\n" + code + "\nexit(4)"); r.End == nil || r.End.Code == nil || *r.End.Code != 4 {
					t.Errorf("%s: got %+v %q", code, r.End, r.Transcript())
				}
			}
		})
	})
}

func TestExit(t *testing.T) {
	t.Parallel()
	t.Run("in a turn without exit is an error, and the worker continues", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			run := func(code string) rawworker.RawResult {
				w.Turn++
				w.SendMessage(ipc.TurnStart{Turn: w.Turn, Input: []byte(code), NoExit: true})
				return w.FinishTurn()
			}
			run("import asyncio, sys\nold = 41\nclass Mine(SystemExit): pass\nclass Bad:\n    def __str__(self): return 1/0\nasync def leave(): await asyncio.sleep(0); sys.exit(4)\nasync def in_task():\n    asyncio.ensure_future(leave())\n    try: await asyncio.sleep(60)\n    finally: print('tidy')")
			for _, c := range []struct{ code, name, message, before string }{
				{"sys.exit('a message'); print('never')", "SystemExit", "a message", ""},
				{"sys.exit(3)", "SystemExit", "3", ""},
				{"sys.exit(0)", "SystemExit", "0", ""},
				{"sys.exit()", "SystemExit", "", ""},
				{"raise SystemExit(None)", "SystemExit", "", ""},
				{"exit()", "SystemExit", "", ""},
				{"quit(1)", "SystemExit", "1", ""},
				{"raise Mine(1, 2)", "Mine", "(1, 2)", ""},
				{"raise SystemExit(Bad())", "SystemExit", "", ""},
				{"exec('sys.exit(5)')", "SystemExit", "5", ""},
				{"await leave()", "SystemExit", "4", ""},
				{"await in_task()", "SystemExit", "4", "tidy\n"},
				{"import signal\n_ = signal.signal(signal.SIGALRM, lambda *_: sys.exit('alarm'))\n_ = signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile True: pass", "SystemExit", "alarm", ""},
			} {
				r := run(c.code)
				said := c.name
				if c.message != "" {
					said += ": " + c.message
				}
				want := c.before + said + "\n[an exit ends the input, not the session: the rest of the input was not run, and all variables are there]\n"
				if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeError || r.Idle.Error == nil || *r.Idle.Error != (ipc.RuntimeError{Name: c.name, Message: c.message}) {
					t.Fatalf("%s: the turn ended with %+v, %+v", c.code, r.Idle, r.End)
				}
				if got := r.OutputText(); got != want {
					t.Errorf("%s: got %q, want %q", c.code, got, want)
				}
				if got := run("old + 1").OutputText(); got != "42\n" {
					t.Errorf("%s: then got %q", c.code, got)
				}
			}
			r := w.RunCode("sys.exit(6)") // where an exit is allowed
			if r.End == nil || r.End.Code == nil || *r.End.Code != 6 {
				t.Errorf("got %+v", r.End)
			}
		})
	})
	t.Run("an exit code that cannot be shown still ends the worker", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("class Bad:\n    def __str__(self): return 1/0\nraise SystemExit(Bad())")
		if r.End == nil || r.End.Code == nil || *r.End.Code != 1 || r.End.Message != "" {
			t.Errorf("got %+v", r.End)
		}
	})
}

func TestExitCleanup(t *testing.T) {
	t.Parallel()

	// The worker does not keep the variables alive until the streams are closed or Python ends.
	t.Run("frees the variables of the session", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			dir := t.TempDir()
			w := startWorker(t, s)
			w.RunCode(fmt.Sprintf(`import os, signal, sys
os.chdir(%q)
unclosed = open('unclosed', 'w')
print('written', end='', file=unclosed)
class Freed:
    log = os.open('freed', os.O_WRONLY | os.O_CREAT)
    def __del__(self): self.say(self.log, b'%%d' %% sys.stdout.write('freed'))
    say = os.write
freed = Freed()
_ = signal.signal(signal.SIGINT, lambda *_: None)`, dir))
			w.RunCode("sys.exit()")
			w.waitStatus()
			for name, want := range map[string]string{"unclosed": "written", "freed": "5"} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
					t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
				}
			}
		})
	})

	t.Run("a daemon thread that waits for input does not block exit", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			seen := filepath.Join(t.TempDir(), "seen")
			w.OnInputRequest = func(ipc.StdinWait) bool {
				if err := os.WriteFile(seen, nil, 0o600); err != nil {
					t.Error(err)
				}
				return true
			}
			w.RunCode(fmt.Sprintf("import os, threading, time; threading.Thread(target=input, daemon=True).start()\nwhile not os.path.exists(%q): time.sleep(0.001)", seen))
			r := w.RunCode("import sys; sys.exit(4)")
			if r.End == nil || w.waitStatus().ExitStatus() != 4 || strings.Contains(r.OutputText(), "Fatal") {
				t.Fatalf("got %q %+v %v", r.Transcript(), r.End, w.Cmd.ProcessState)
			}
		})
	})

	t.Run("an interrupt ends the wait for a hanging thread", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.StartTurn(`import threading, time, sys
def hang():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    print('joining', flush=True)
    time.sleep(100)
threading.Thread(target=hang).start()
sys.exit(5)`)
		w.WaitOutput("joining")
		for seq := uint64(1); seq < 1000; seq++ {
			w.sendInterrupt(seq, 1)
			for {
				e, ok := w.NextEventWithin(50 * time.Millisecond)
				if !ok {
					break
				}
				if m, ok := e.(ipc.SessionEnd); ok {
					if *m.Code != 5 {
						t.Fatalf("got %+v", m)
					}
					return
				}
			}
		}
		t.Fatal("the join continues")
	})

	t.Run("keeps the exit status of os._exit and of crashes", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		if r := w.RunCode("import os; os._exit(9)"); r.End != nil || w.waitStatus().ExitStatus() != 9 {
			t.Fatalf("got %+v %v", r.End, w.Cmd.ProcessState)
		}
		w = startWorker(t, workerSetup{})
		r := w.RunCode("def f():\n    import ctypes; ctypes.string_at(0)\nf()")
		if s := w.waitStatus(); !s.Signaled() || s.Signal() != syscall.SIGSEGV {
			t.Fatalf("got %v", w.Cmd.ProcessState)
		}
		if !strings.Contains(r.OutputText(), "Segmentation fault") || !strings.Contains(r.OutputText(), `"<cell 1>", line 2 in f`) {
			t.Fatalf("no stack on the terminal: %q", r.Transcript())
		}
	})
}

func TestShutdown_ExitHandlers(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		for _, c := range []struct {
			name, code string
			waits      bool
			outcome    ipc.Outcome
		}{
			{"idle", "", false, ""},
			{"during an input request", "try: input('? ')\nexcept EOFError: print('EOF')", true, ipc.OutcomeOK},
			{"running", "import time\ntry:\n    print('up', flush=True)\n    time.sleep(100)\nexcept KeyboardInterrupt: time.sleep(100)", false, ipc.OutcomeInterrupted},
		} {
			w := startWorker(t, s)
			w.RunCode("import atexit; atexit.register(print, 'bye')")
			if c.code != "" {
				w.StartTurn(c.code)
			}
			switch {
			case c.waits:
				w.OnInputRequest = func(ipc.StdinWait) bool {
					w.SendMessage(ipc.Shutdown{GraceMS: 1000})
					return true
				}
			case c.code != "":
				w.WaitOutput("up")
				fallthrough
			default:
				w.SendMessage(ipc.Shutdown{GraceMS: 1000})
			}
			if c.code != "" {
				if r := w.waitShutdown(!c.waits); r.Idle == nil || r.Idle.Outcome != c.outcome {
					t.Fatalf("%s: got %q %+v", c.name, r.Transcript(), r.Idle)
				}
			}
			r := w.FinishTurn()
			if r.End == nil || r.End.Reason != ipc.EndShutdown || r.OutputText() != "bye\n" {
				t.Fatalf("%s: got %q %+v", c.name, r.Transcript(), r.End)
			}
			if w.waitStatus().ExitStatus() != 0 {
				t.Fatalf("%s: %v", c.name, w.Cmd.ProcessState)
			}
		}
	})
}

// waitShutdown collects the running turn, which is signalled until it ends.
func (w *worker) waitShutdown(signal bool) (r result) {
	w.t.Helper()
	for range 1000 {
		if signal {
			syscall.Kill(-w.Cmd.Process.Pid, syscall.SIGINT)
		}
		for {
			e, ok := w.NextEventWithin(50 * time.Millisecond)
			if !ok {
				break
			}
			r.Events = append(r.Events, e)
			switch e := e.(type) {
			case ipc.StdinWait:
				w.OnInputRequest(e)
			case ipc.Idle:
				r.Idle = &e
				return r
			}
		}
	}
	return r
}

func TestChannel(t *testing.T) {
	t.Parallel()

	t.Run("the worker ends when the channel closes", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.Channel.Close()
			w.FinishTurn()
			if w.waitStatus().ExitStatus() != 0 {
				t.Fatalf("idle: %v", w.Cmd.ProcessState)
			}
			w = startWorker(t, s)
			w.OnInputRequest = func(ipc.StdinWait) bool {
				w.Channel.Close()
				return true
			}
			w.RunCode("try: input()\nexcept Exception: print('swallowed')")
			w.waitStatus()
			w = startWorker(t, s)
			w.RunCode("import threading; threading.Thread(target=threading.Event().wait).start()")
			w.Channel.Close()
			w.FinishTurn()
			if s := w.waitStatus(); !s.Signaled() || s.Signal() != syscall.SIGALRM {
				t.Fatalf("a thread that hangs: %v", w.Cmd.ProcessState)
			}
		})
	})

	t.Run("a protocol error ends the worker", func(t *testing.T) {
		t.Parallel()
		for name, frame := range map[string]string{
			"unknown type":    "\x00\x00\x00\x0a\x81\xa4type\xa3wat",
			"not MessagePack": "\x00\x00\x00\x01\xc1",
			"too long":        "\xff\xff\xff\xff",
		} {
			w := startWorker(t, workerSetup{})
			if _, err := w.Channel.WriteString(frame); err != nil {
				t.Fatal(err)
			}
			r := w.FinishTurn()
			if r.End == nil || r.End.Reason != ipc.EndProtocolError || r.End.Message == "" || w.waitStatus().ExitStatus() != 70 {
				t.Fatalf("%s: got %+v %v", name, r.End, w.Cmd.ProcessState)
			}
		}
	})
}

func TestCompletion(t *testing.T) {
	t.Parallel()

	t.Run("completes names, attributes, keys and paths", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			dir := t.TempDir()
			for name, text := range map[string]string{
				"data file.csv": "", ".hidden": "", "it's.csv": "", "it's d/inner": "", "lib/unread.py": "raise SystemExit('it was run')\ndef tool(): pass\nclass Tool: pass\nvalue = 1\n",
				"lib/pack/__init__.py": "raise SystemExit('it was run')\nfrom_pack = 1\n", "lib/pack/part.py": "",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.RunCode(fmt.Sprintf(`import os, sys, functools, collections
os.chdir(%[1]q); sys.path.append(%[1]q + '/lib')
ran = []
class C:
    alpha = 1
    @property
    def beta(self): ran.append('property'); return self
    def __init__(self, size=1, *, colour=None): self.gamma = 'text'
    def method(self, first, second=2): pass
    @staticmethod
    def still(width): pass
class Nosy:
    def __getattr__(self, n): ran.append('__getattr__'); return self
    def __getattribute__(self, n): ran.append('__getattribute__'); return object.__getattribute__(self, n)
    def __dir__(self): ran.append('__dir__'); return ['made']
    def __getitem__(self, n): ran.append('__getitem__'); return self
    def __eq__(self, o): ran.append('__eq__'); return True
    def __hash__(self): return hash('key')
    @property
    def __dict__(self): ran.append('__dict__'); return {}
    own = 1
import types; lazy = types.ModuleType('lazy'); exec("def __dir__(): return ['later', 1]", lazy.__dict__)
own = types.ModuleType('own'); own.__dir__ = lambda: ran.append('__dir__') or []
class Lookup(dict):
    def __iter__(self): ran.append('__iter__'); return iter(())
    def __missing__(self, k): ran.append('__missing__')
    def __getitem__(self, k): ran.append('__getitem__')
def function(one, two=2, *rest, three, **more): pass
@functools.wraps(function)
def wrapped(*a, **k): pass
obj = C(); nosy = Nosy(); lookup = Lookup(alpha=1)
table = {'alpha': {'inner': [obj]}, 'al b': 2, 'it\'s': 3, 7: 'x', nosy: 1, 'line\n': 2, 'back\\slash': 1, 'say "hi"': 1, b'by\xff': 1}
été = 1`, dir))
			for i, c := range []struct{ text, start, has, hasNot string }{
				{"obj.", "obj.", "alpha", "__init__"},
				{"obj.al", "obj.", "alpha", "beta"},
				{"obj.gamma.upp", "obj.gamma.", "upper", ""},
				{"obj.beta.al", "obj.beta.", "", "alpha"},
				{"print(ob", "print(", "obj", "os"},
				{"os.path.joi", "os.path.", "join", ""},
				{"lazy.la", "lazy.", "later", "lazy"},
				{"own.__d", "own.", "__dir__", "later"},
				{"whil", "", "while", ""},
				{"x = été", "x = ", "été", ""},
				{"'obj.al", "'obj.al", "", "alpha"},
				{"# ob", "# ob", "", "obj"},
				{"nothing.al", "nothing.", "", "alpha"},
				{"f(1).al", "f(1).", "", "alpha"},
				{"obj.__ini", "obj.", "__init__", "alpha"},
				// literals and items of Python's own containers
				{"'abc'.upp", "'abc'.", "upper", ""},
				{"x = [1, 2].app", "x = [1, 2].", "append", ""},
				{"{}.ite", "{}.", "items", ""},
				{"table['alpha'].it", "table['alpha'].", "items", ""},
				{"table['alpha']['inner'][-1].gam", "table['alpha']['inner'][-1].", "gamma", ""},
				{"table['key'].", "table['key'].", "", "own"},
				{"nosy[0].", "nosy[0].", "", "own"},
				{"lookup['alpha'].", "lookup['alpha'].", "", "real"},
				{"nosy.", "nosy.", "own", "made"},
				{"nosy.own.re", "nosy.own.", "real", ""},
				// keys
				{"table['al", "table['", "alpha", "inner"},
				{"table[\"al ", "table[\"", "al b", ""},
				{"table['it", "table['", `it\'s`, ""},
				{`table['it\'`, "table['", `it\'s`, ""},
				{"table[r'it", "table[r'it", "", "it's"},
				{"table[\"it", "table[\"", "it's", ""},
				{"table['lin", "table['", `line\n`, ""},
				{"table['", "table['", `back\\slash`, "by"},
				{"table[\"say", "table[\"", `say \"hi\"`, ""},
				{"table[b'", "table[b'", `by\xff`, "alpha"},
				{"table[", "table[", `b'by\xff'`, "obj"},
				// replacement fields
				{"f'{obj.al", "f'{obj.", "alpha", "beta"},
				{"f\"{table['al", "f\"{table['", "alpha", "inner"},
				{"f'''{obj.al", "f'''{obj.", "alpha", ""},
				{"print(f'a {{ {obj.gamma!r:>{ob", "print(f'a {{ {obj.gamma!r:>{", "obj", ""},
				{"rf'{(lambda: obj.al", "rf'{(lambda: obj.", "alpha", ""},
				{"f'{function(tw", "f'{function(", "two=", ""},
				{"f'{obj.al}' + obj.gam", "f'{obj.al}' + obj.", "gamma", ""},
				{"f'{obj:ob", "f'{obj:ob", "", "obj"},
				{"f'{obj} ob", "f'{obj} ob", "", "obj"},
				{"f'{{ob", "f'{{ob", "", "obj"},
				{"f'{obj != ob", "f'{obj != ", "obj", ""},
				{"'{ob", "'{ob", "", "obj"},
				{"table[", "table[", "'alpha'", "obj"},
				{"table['alpha'][", "table['alpha'][", "'inner'", ""},
				{"lookup['", "lookup['", "alpha", ""},
				{"obj.gamma[", "obj.gamma[", "obj", "'alpha'"},
				// parameters
				{"function(1, t", "function(1, ", "three=", "one="},
				{"function(two=1, t", "function(two=1, ", "three=", "two="},
				{"function(g(1, 2), t", "function(g(1, 2), ", "two=", ""},
				{"function(x, {t", "function(x, {", "", "two="},
				{"wrapped(tw", "wrapped(", "two=", ""},
				{"C(col", "C(", "colour=", ""},
				{"obj.method(", "obj.method(", "second=", "self="},
				{"C.still(wi", "C.still(", "width=", ""},
				{"function(\n    1,\n    th", "function(\n    1,\n    ", "three=", ""},
				// imports
				{"import js", "import ", "json", "js"},
				{"import os, js", "import os, ", "json", ""},
				{"import os.pa", "import os.", "path", ""},
				{"import xml.et", "import xml.", "etree", ""},
				{"from xml.etr", "from xml.", "etree", ""},
				{"from collections import Ord", "from collections import ", "OrderedDict", ""},
				{"from collections import (OrderedDict, Cou", "from collections import (OrderedDict, ", "Counter", ""},
				{"import unr", "import ", "unread", ""},
				{"from unread import to", "from unread import ", "tool", ""},
				{"from pack import ", "from pack import ", "part", "unread"},
				{"from pack import fr", "from pack import ", "from_pack", ""},
				{"from pack imp", "from pack ", "import", ""},
				// paths
				{"open('data", "open('", "data file.csv", ""},
				{"open('li", "open('", "lib/", ""},
				{"open('lib/un", "open('lib/", "unread.py", ""},
				{"open('./.hid", "open('./", ".hidden", ""},
				{"open('./", "open('./", "lib/", ".hidden"},
				{"open('it", "open('", `it\'s.csv`, ""},
				{"open(\"it", "open(\"", "it's.csv", ""},
				{`open('it\'s d/`, `open('it\'s d/`, "inner", ""},
				{"open(r'it", "open(r'it", "", "it's.csv"},
				{"f'lib/un", "f'lib/un", "", "unread.py"},
				{"open('/nowhere/x", "open('/nowhere/x", "", "x"},
			} {
				w.SendMessage(ipc.Query{ID: uint64(i), Kind: ipc.QueryComplete, Text: c.text, Cursor: uint64(len(c.text))})
				m, ok := w.NextEvent().(ipc.QueryResult)
				if !ok || m.ID != uint64(i) || m.Status != ipc.StatusOK || m.Start != uint64(len(c.start)) || len(m.Matches) > 200 {
					t.Fatalf("%q: got %+v, want start %d", c.text, m, len(c.start))
				}
				if c.has != "" && !slices.Contains(m.Matches, c.has) || c.hasNot != "" && slices.Contains(m.Matches, c.hasNot) {
					t.Errorf("%q: got %q; want %q in it and %q not", c.text, m.Matches, c.has, c.hasNot)
				}
			}
			w.RunCode("ran, 'unread' in sys.modules").WantOutput(t, "([], False)\n")
		})
	})

	// The figures bound the answer. A query that takes too long is interrupted and has no answer.
	t.Run("limits the matches in a large namespace", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode(`globals().update(('name%06d' % i, i) for i in range(100000))
big = {'key%07d' % i: i for i in range(1000000)}
long = 'x = "' + 'a' * 10`)
			for i, c := range []struct {
				text    string
				matches int
			}{
				{"name", 200},
				{"name09999", 10},
				{"big['key", 200},
				{"big['key000001", 10},
				{"big[", 200},
				{"# " + strings.Repeat("é", 200000) + "\nname09999", 10},
			} {
				w.SendMessage(ipc.Query{ID: uint64(i), Kind: ipc.QueryComplete, Text: c.text, Cursor: uint64(len(c.text))})
				m, ok := w.NextEvent().(ipc.QueryResult)
				if !ok || m.Status != ipc.StatusOK || len(m.Matches) != c.matches || m.Start > uint64(len(c.text)) {
					t.Fatalf("%.30q: got %d matches, %+v", c.text, len(m.Matches), m)
				}
			}
		})
	})

	// Code of a library may compute its names, and may be slow.
	t.Run("interrupts a completion that takes too long", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("class Slow:\n    def __dir__(self):\n        while True: pass\nSlow.__module__ = 'library'\nslow = Slow()")
			w.SendMessage(ipc.Query{ID: 99, Kind: ipc.QueryComplete, Text: "slow.", Cursor: 5})
			w.SendMessage(ipc.Interrupt{Turn: 0, Seq: 1, Level: 2})
			for answered := false; !answered; {
				syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
				e, _ := w.NextEventWithin(50 * time.Millisecond)
				var m ipc.QueryResult
				if m, answered = e.(ipc.QueryResult); answered && m.Status != ipc.StatusTimeout {
					t.Fatalf("got %+v", m)
				}
			}
			if r := w.RunCode("'after'"); r.OutputText() != "'after'\n" {
				t.Fatalf("got %q", r.Transcript())
			}
		})
	})
}

func TestVariables(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		ask := func() ipc.QueryResult {
			t.Helper()
			w.SendMessage(ipc.Query{ID: 7, Kind: ipc.QueryVariables})
			m, ok := w.NextEvent().(ipc.QueryResult)
			if !ok || m.ID != 7 || m.Status != ipc.StatusOK {
				t.Fatalf("got %+v", m)
			}
			return m
		}
		if m := ask(); len(m.Variables) != 0 || m.More != 0 {
			t.Errorf("in a new session: got %+v", m)
		}
		w.RunCode(`import os, sys
from os.path import join
from math import sqrt
from fractions import Fraction
ran = []
class Meta(type):
    __name__ = property(lambda c: ran.append(1))
    def __instancecheck__(c, o): ran.append(2)
    def __getattribute__(c, n): ran.append(3); return type.__getattribute__(c, n)
class Nosy(metaclass=Meta):
    def __getattribute__(self, n): ran.append(4); return object.__getattribute__(self, n)
    def __len__(self): ran.append(5); return 1
    def __sizeof__(self): ran.append(6); return 1
    def __repr__(self): ran.append(7); return ''
class Words(list):
    def __len__(self): ran.append(8); return 1
def function(): pass
_private = __dunder__ = 1
text = 'é' * 12
table = {'a': 1}
nosy = Nosy(); words = Words()
ran.clear()`)
		var got []string
		for _, v := range ask().Variables {
			size := ""
			if v.Bytes > 0 {
				size = " sized"
			}
			got = append(got, v.Name+" "+v.Type+" "+v.Shape+size)
		}
		want := []string{
			"words Words ", "nosy Nosy ", "table dict 1 sized", "text str 12 sized", "ran list 0 sized",
			"function function ", "Words type ", "Nosy Meta ", "Meta type ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q,\nwant %q", got, want)
		}
		w.RunCode("ran").WantOutput(t, "[]\n")
		w.RunCode("for i in range(300): globals()['n%d' % i] = 'x' * 500\nglobals()['v' * 300] = type('T' * 300, (), {})()")
		m := ask()
		if len(m.Variables) != 200 || m.More != 301+10-200 || len(m.Variables[0].Name) > 256 || len(m.Variables[0].Type) > 256 {
			t.Errorf("got %d variables and %d more, the first %+v", len(m.Variables), m.More, m.Variables[0])
		}
		if s.python != "" && exec.Command(s.python, "-c", "import numpy").Run() == nil {
			w.RunCode("import numpy; grid = numpy.zeros((3, 4)); row = grid[0]")
			if v := ask().Variables; v[0] != (ipc.Variable{Name: "row", Type: "ndarray", Shape: "4", Bytes: 32}) ||
				v[1] != (ipc.Variable{Name: "grid", Type: "ndarray", Shape: "(3, 4)", Bytes: 96}) {
				t.Errorf("got %+v", v[:2])
			}
		}
	})
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		for text, want := range map[string]ipc.QueryStatus{
			"":                          ipc.StatusComplete,
			"1+1":                       ipc.StatusComplete,
			"x = 1\ny = 2":              ipc.StatusComplete,
			"# comment":                 ipc.StatusComplete,
			"await f()":                 ipc.StatusComplete,
			"'\\d'":                     ipc.StatusComplete,
			"if x:":                     ipc.StatusIncomplete,
			"if x:\n    y":              ipc.StatusIncomplete,
			"if x:\n    y\n":            ipc.StatusComplete,
			"if x:\n    y\nz":           ipc.StatusComplete,
			"for i in x: pass":          ipc.StatusIncomplete,
			"f(":                        ipc.StatusIncomplete,
			"[1,\n2":                    ipc.StatusIncomplete,
			"'''text":                   ipc.StatusIncomplete,
			"x = \\":                    ipc.StatusIncomplete,
			"@decorator":                ipc.StatusIncomplete,
			"try:\n    pass":            ipc.StatusIncomplete,
			"f(]":                       ipc.StatusInvalid,
			"x = = 1":                   ipc.StatusInvalid,
			"'text":                     ipc.StatusInvalid,
			"def f(:":                   ipc.StatusInvalid,
			"return 1":                  ipc.StatusInvalid,
			"class C:\n  def f(s):\n\n": ipc.StatusIncomplete,
		} {
			w.SendMessage(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: text})
			e := w.NextEvent()
			if m, ok := e.(ipc.QueryResult); !ok || m.Status != want {
				t.Errorf("%q: got %+v, want %s", text, e, want)
			}
		}
		w.RunCode("1").WantOutput(t, "1\n")
	})
}

func TestCache(t *testing.T) {
	t.Parallel()
	s := workerSetup{}
	dir := filepath.Join(t.TempDir(), "new", "cache")
	s.options.CacheDir = dir
	entries := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "worker-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	w := startWorker(t, s)
	for i := 0; len(entries()) == 0 && i < 1000; i++ { // the worker writes it after idle
		w.RunCode("1")
	}
	found := entries()
	info, err := os.Stat(found[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v %v", info.Mode(), err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Fatalf("the directory is %v", info.Mode())
	}
	startWorker(t, s).RunCode("1").WantOutput(t, "1\n")

	// The worker does not use damaged files.
	if err := os.WriteFile(found[0], []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = startWorker(t, s)
	for i, data := 0, []byte("garbage"); string(data) == "garbage" && i < 1000; i++ {
		data, _ = os.ReadFile(found[0])
		w.RunCode("1").WantOutput(t, "1\n")
	}
	// The worker does not use files that others can write to.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
	w = startWorker(t, s)
	for range 5 {
		w.RunCode("1").WantOutput(t, "1\n")
	}
	if got := entries(); len(got) != 0 {
		t.Fatalf("written into a directory that everyone can write to: %v", got)
	}
}

func TestOldPython(t *testing.T) {
	t.Parallel()
	path := filepath.Join(os.Getenv("HOME"), ".pyenv", "versions", "2.7.18", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no Python 2.7: install it with pyenv")
	}
	s := workerSetup{WorkerOptions: rawworker.WorkerOptions{NoTurn0: true}}
	spec := newPythonSpec(t)
	spec.Path = path
	w := launchWorker(t, spec, s)
	if r := w.FinishTurn(); !strings.Contains(r.OutputText(), "Python 3.8 or newer is needed") {
		t.Fatalf("got %q", r.Transcript())
	}
	if w.waitStatus().ExitStatus() != 3 {
		t.Fatalf("got %v", w.Cmd.ProcessState)
	}
}
