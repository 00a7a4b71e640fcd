//go:build linux || windows

package python_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestFunction(t *testing.T) {
	t.Parallel()

	t.Run("is called like a Python function", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
			r.WantOutput(t, "import turnstone\nturnstone.add(2, b=3)", "5\n")
			r.WantOutput(t, "from turnstone import add, echo\nadd(40, b=2, at={'x': 1})", "43\n")
			r.WantOutput(t, "sum(add(i) for i in range(1000))", "499500\n")
			r.WantOutput(t, "[n for n in dir(turnstone)]", "['CallError', 'add', 'block', 'echo', 'leaves', 'make', 'panics', 'raise_error', 'sleep']\n")
			r.WantOutput(t, "import inspect\nprint(str(inspect.signature(add)).replace('Union[dict, NoneType]', 'Optional[dict]').replace('dict | None', 'Optional[dict]'))" /* 3.8 and 3.14 print it differently */, "(a: int, *, b: int = ..., at: Optional[dict] = ...) -> int\n")
			res := r.RunCode(t, "help(add)")
			for _, want := range []string{"add(a: int, *, b: int = ...", "Adds numbers.", "the first", "the second"} {
				if !strings.Contains(res.OutputText(), want) {
					t.Errorf("help does not say %q: %s", want, res.OutputText())
				}
			}
			r.WantOutput(t, "import pickle; pickle.loads(pickle.dumps(add)) is add", "True\n")
		})
	})

	t.Run("a failure is an exception with the message of the host", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
			r.RunCode(t, "import turnstone; from turnstone import *")
			for _, c := range []struct{ code, want string }{
				{"raise_error('', message='no such table')", "CallError: no such table"},
				{"raise_error('QuotaError', message='used up')", "QuotaError: wrapped: used up"},
				{"panics()", "the function panicked: oh no"},
				{"leaves()", "the function ended its goroutine"},
				{"add()", "TypeError: add: wrong arguments: missing a"},
				{"add(b='x', c=1)", "add: wrong arguments: missing a; b is a string, not integer; unknown c"},
				{"add(1, 2)", "2 arguments without a name, at most 1"},
				{"add(1.5)", "a is the number 1.5, not integer"},
				{"add(1, a=2)", "two values for a"},
				{"add(1, at={'z': 1})", "missing at.x"},
				{"turnstone.raize_eror", "AttributeError: the host offers no function raize_eror: it offers raise_error, add, "},
				{"turnstone.nothing", "AttributeError: the host offers no function nothing: it offers add, block"},
			} {
				res := r.RunCode(t, c.code)
				if res.Outcome != "error" || !strings.Contains(res.OutputText(), c.want) {
					t.Errorf("%s: %s %q, want %q", c.code, res.Outcome, res.OutputText(), c.want)
				}
			}
			r.WantOutput(t, `
for name in ("KeyError", "PermissionError", "QuotaError", "StopIteration", "SystemExit", "bad name", "UnicodeDecodeError", "ExceptionGroup"):
    try: raise_error(name, message="m")
    except CallError as e: print(type(e).__name__, e.name, str(e), isinstance(e, LookupError), isinstance(e, OSError))
`, `KeyError KeyError wrapped: m True False
PermissionError PermissionError wrapped: m False True
QuotaError QuotaError wrapped: m False False
StopIteration StopIteration wrapped: m False False
SystemExit SystemExit wrapped: m False False
CallError bad name wrapped: m False False
UnicodeDecodeError UnicodeDecodeError wrapped: m False False
ExceptionGroup ExceptionGroup wrapped: m False False
`)
			wantCleanTurn(t, r)
		})
	})

	t.Run("can be awaited", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.WantOutput(t, `
import asyncio, time
from turnstone import add, sleep, block
async def main():
    start = time.monotonic()
    await asyncio.gather(*(sleep.async_(200) for _ in range(500)))
    took = time.monotonic() - start
    sums = await asyncio.gather(*(add.async_(i, b=1) for i in range(500)))
    try: await add.async_("x")
    except TypeError as e: print(e)
    try: await asyncio.wait_for(block.async_("a"), 3)
    except asyncio.TimeoutError: print("timeout")
    return sums == list(range(1, 501)), took < 20
print(asyncio.run(main()))
`, "add: wrong arguments: a is a string, not integer\ntimeout\n(True, True)\n")
			h.WaitAllEnded(t)
			if h.Cancelled.Load() != 1 {
				t.Errorf("%d calls were cancelled, want the one that timed out", h.Cancelled.Load())
			}
		})
	})

	t.Run("does not shadow a module of the user", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
			r.WantOutput(t, `
import os, sys, tempfile
d = tempfile.mkdtemp(); os.chdir(d)
os.mkdir("turnstone")
import turnstone
print(turnstone.add(1))
del sys.modules["turnstone"]
os.rmdir("turnstone")
_ = open("turnstone.py", "w").write("mine = 1")
import importlib; importlib.invalidate_caches()
import turnstone, turnstone_host
print(turnstone.mine, turnstone_host.add(2), turnstone_host.add.__module__)
`, "1\n1 2 turnstone_host\n")
		})
	})

	t.Run("records each call in one line", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
			res := r.RunCode(t, `
from turnstone import *
for i in range(40):
    try: raise_error("") if i < 2 else add(i)
    except CallError: pass
print("done")
`)
			if got, want := res.Transcript(), "done\n[called raise_error × 2, 2 failed][called add × 38]"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			res = r.RunCode(t, "import threading\ndef later():\n    add(1)\nx = threading.Timer(0.05, later); x.start(); x.join(); print(turnstone.echo(1)) if 0 else None")
			if got, want := res.Transcript(), "[called add]"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			r.RunCode(t, "sleep(1200)")
			reply, err := r.Wait(sessionkit.TimeoutContext(t), 0, nil)
			if err != nil || !strings.Contains(reply.Text(), "[called sleep, ") {
				t.Errorf("the reply says %q, %v", reply.Text(), err)
			}
		})
	})
}

func TestFunction_Values(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
		r.WantOutput(t, `
from turnstone import echo
from datetime import datetime, timezone, timedelta
import math
for v in (None, True, 0, -1, 2**63 - 1, -2**63, 2**64 - 1, 9007199254740993, 1.5, float("inf"), "naïve 🐦", b"\xff\x00",
          [1, [2, {"a": None}]], {"k": [b"", ""]}, datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc), datetime(1900, 1, 1, tzinfo=timezone.utc)):
    got = echo(v)
    if got != v or type(got) is not type(v):
        print(repr(v), repr(got))
print(math.isnan(echo(float("nan"))), echo((1, 2)), echo(bytearray(b"x")), echo({}) )
deep = 0
for _ in range(126): deep = [deep]
print(echo(deep) == deep)
`, "True [1, 2] b'x' {}\nTrue\n")
		for _, c := range []struct{ code, want string }{
			{"echo(2**64)", "OverflowError: echo: argument value: the integer does not fit into 64 bits"},
			{"echo([1, {'a': {2, 3}}])", "TypeError: echo: argument value[1].a: a value of type set cannot be sent: use list(...)"},
			{"echo({1: 2})", "only str can be sent"},
			{"echo('\\ud800')", "lone surrogate"},
			{"loop = []; loop.append(loop); echo(loop)", "nested deeper than 128, or contains itself"},
			{"echo(b'x' * (33 << 20))", "too large: at most 33554432 bytes"},
			{"from decimal import Decimal; echo([Decimal('1.5')])", "argument value[0]: a value of type Decimal cannot be sent: use float(...) or str(...)"},
			{"import pathlib; echo(pathlib.Path('.'))", "cannot be sent: use str(...)"},
			{"import datetime as d; echo({'at': d.date(2026, 1, 1)})", "argument value.at: a value of type date cannot be sent: use isoformat()"},
			{"echo(range(3))", "a value of type range cannot be sent: use list(...)"},
			{"echo(1j)", "use a list of two numbers"},
			{"echo(len)", "a value of type builtin_function_or_method cannot be sent"},
			{"turnstone.make(40 << 20)", "the result cannot be sent: it has more than 33554432 bytes"},
		} {
			res := r.RunCode(t, "import turnstone\n"+c.code)
			if res.Outcome != "error" || !strings.Contains(res.OutputText(), c.want) {
				t.Errorf("%s: %s %.600q, want %q", c.code, res.Outcome, res.OutputText(), c.want)
			}
		}
		r.WantOutput(t, "len(turnstone.make(20_000_000)), echo(b'y' * 20_000_000) == b'y' * 20_000_000", "(20000000, True)\n")
	})
}

func TestFunction_Threads(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		h := sessionkit.NewTestHost()
		r := sessionkit.OpenWithHost(t, h, python.Spec(o))
		r.WantOutput(t, `
from turnstone import add, sleep
import sys, threading, time
sys.setswitchinterval(1e-6)  # threads meet at every step
wrong = []
def many(k):
    for i in range(100):
        if add(k, b=i) != k + i: wrong.append((k, i))
threads = [threading.Thread(target=many, args=(k,)) for k in range(64)]
for x in threads: x.start()
for x in threads: x.join()
sys.setswitchinterval(0.1)
wrong
`, "[]\n")
		r.WantOutput(t, `
start = time.monotonic()
threads = [threading.Thread(target=sleep, args=(300,)) for _ in range(256)]
for x in threads: x.start()
for x in threads: x.join()
time.monotonic() - start < 20
`, "True\n")
		h.WaitAllEnded(t)
	})
}

func TestFunctionInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the call and cancels its context", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			for range testmain.Rounds(20) {
				turn := r.StartTurn(t, "from turnstone import block; block('x')")
				<-h.BlockStarted
				if got := r.InterruptTurn(t, turn); got != session.InterruptIdle {
					t.Fatalf("the interrupt led to %s", got)
				}
				res := r.FinishTurn(t, turn)
				if res.Outcome != "interrupted" {
					t.Fatalf("the turn ended %s: %q", res.Outcome, res.OutputText())
				}
				h.WaitAllEnded(t)
			}
			wantCleanTurn(t, r)
		})
	})

	// A loop of calls is interrupted at a random moment, again and again.
	t.Run("loses nothing and reaches no other turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.RunCode(t, "from turnstone import *; n = 0; import threading")
			codes := []string{
				"while True:\n    n += 1\n    if add(n) != n: print('!' * 5)",
				"while True:\n    n += 1\n    if len(make(n % 3_000_000)) != n % 3_000_000: print('!' * 5)",
				"while True:\n    n += 1\n    print(n, end='')\n    if echo(n) != n: print('!' * 5)",
				"def run():\n    for i in range(200):\n        if echo(i) != i: print('!' * 5)\nwhile True:\n    ts = [threading.Thread(target=run) for _ in range(3)]\n    [x.start() for x in ts]; add(1); [x.join() for x in ts]",
			}
			random := rand.New(rand.NewPCG(1, 2))
			for i := range testmain.Rounds(60) {
				turn := r.StartTurn(t, codes[i%len(codes)])
				<-time.After(time.Duration(random.IntN(6000)) * time.Microsecond) // the random moment is the point of the test
				if got := r.InterruptTurn(t, turn); got != session.InterruptIdle {
					t.Fatalf("round %d: the interrupt led to %s", i, got)
				}
				res := r.FinishTurn(t, turn)
				// Within Thread.start, the interrupt may cause an error of CPython's own lock.
				ended := res.Outcome == "interrupted" || strings.Contains(res.OutputText(), "KeyboardInterrupt\n\nDuring handling") && strings.Contains(res.OutputText(), ", in start\n")
				if !ended || strings.Contains(res.OutputText(), "!!!!!") {
					t.Fatalf("round %d: the turn ended %s: %.1000q", i, res.Outcome, res.OutputText())
				}
				r.WantOutput(t, "add(1)", "1\n")
			}
			h.WaitAllEnded(t)
		})
	})
}

func TestFunctionList(t *testing.T) {
	t.Parallel()

	t.Run("may change at any time", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.WantOutput(t, "import turnstone\nhasattr(turnstone, 'block')", "True\n")
			functions := h.HostFunctions()
			renamed := functions[1]
			renamed.Name = "plus"
			if err := r.SetFunctions(renamed); err != nil {
				t.Fatal(err)
			}
			r.WantOutput(t, "turnstone.plus(1, b=2), hasattr(turnstone, 'block'), dir(turnstone)", "(3, False, ['CallError', 'plus'])\n")
			if err := r.SetFunctions(); err != nil {
				t.Fatal(err)
			}
			r.WantOutput(t, "dir(turnstone)", "['CallError']\n")
			if err := r.SetFunctions(functions...); err != nil {
				t.Fatal(err)
			}
			if err := r.Reset(sessionkit.TimeoutContext(t)); err != nil {
				t.Fatal(err)
			}
			r.WaitUntilReady(t)
			r.WantOutput(t, "import turnstone\nturnstone.add(1)", "1\n")
			for _, bad := range []supervisor.Function{
				{Name: "a-b", Call: functions[0].Call},
				{Name: "f"},
				{Name: "f", Call: functions[0].Call, Params: []byte(`{"type": "array"}`)},
				{Name: "f", Call: functions[0].Call, Params: []byte(`{`)},
			} {
				if err := r.SetFunctions(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("function %q", bad.Name)) {
					t.Errorf("%+v: %v", bad, err)
				}
			}
			r.WantOutput(t, "turnstone.add(1)", "1\n")
		})
	})

	t.Run("loses no call while it changes", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			functions := h.HostFunctions()
			turn := r.StartTurn(t, `
import threading, turnstone
from turnstone import add
wrong = []
def many():
    for n in range(200):
        try:
            if add(n, b=1) != n + 1: wrong.append(n)
            if turnstone.add(n) != n: wrong.append(n)
        except Exception as e: wrong.append(e)
threads = [threading.Thread(target=many) for _ in range(8)]
for x in threads: x.start()
for x in threads: x.join()
print(wrong[:3])`)
			for i := range testmain.Rounds(200) {
				list := functions
				if i%2 == 0 {
					list = functions[:2] // echo and add remain
				}
				if err := r.SetFunctions(list...); err != nil {
					t.Fatal(err)
				}
			}
			if res := r.FinishTurn(t, turn); !strings.HasPrefix(res.OutputText(), "[]") {
				t.Errorf("the turn ended %s: %.1000q", res.Outcome, res.OutputText())
			}
			h.WaitAllEnded(t)
		})
	})
}
