package python_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// A signal handler of user code may run in the middle of a call. It gets an error or a result, and the
// interrupted call continues. The test is not parallel, because it counts events within seconds.
func TestFunction_InSignalHandler(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(o))
		r.WantOutput(t, `
import signal, time
from turnstone import add, CallError
worked = refused = wrong = 0
def handler(*a):
    global worked, refused, wrong
    try:
        if add(20, b=2) != 22: wrong += 1
        worked += 1
    except CallError as e:
        if "signal handler or finalizer" not in str(e): wrong += 1
        refused += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
i, end = 0, time.monotonic() + 4
while time.monotonic() < end:
    i += 1
    if add(i) != i: wrong += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(wrong, refused > 100, i > 100)
`, "0 True True\n")
		r.WantOutput(t, `
class Stop(Exception): pass
def handler(*a): raise Stop
signal.signal(signal.SIGALRM, handler)
wrong = stopped = 0
end = time.monotonic() + 3
i = 0
def calls(): # some versions of Python have the jump at a loop's end outside the try around the loop
    global i, wrong
    while True:
        i += 1
        if add(i) != i: wrong += 1
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        calls()
    except Stop:
        stopped += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(wrong, stopped > 100, add(1))
`, "0 True 1\n")
	})
}

func TestFunctionLinux(t *testing.T) {
	t.Parallel()

	// Ten thousand calls in a turn leak no memory, neither in the worker nor in the supervisor.
	t.Run("ten thousand calls in a turn leak no memory", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.WantOutput(t, `
from turnstone import echo
import resource
def many(n):
    for i in range(n):
        if echo({"i": i, "text": "x" * 500})["i"] != i: print("!")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = many(500)
grown = many(10_000) - before
print(grown if grown > 1024 else "flat")
`, "flat\n")
			h.WaitAllEnded(t)
		})
	})

	t.Run("a call in a forked child is an error", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.WantOutput(t, `
import os, threading, turnstone, warnings
warnings.simplefilter("ignore") # from 3.12 on, Python warns of a fork with threads
waiting = threading.Thread(target=turnstone.sleep, args=(300,))
waiting.start()
pid = os.fork()
if pid == 0:
    try: turnstone.add(1)
    except turnstone.CallError as e: print(e, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
waiting.join()
turnstone.add(5)
`, "add: a forked child cannot call functions of the host: call in the parent, and pass the result on\n5\n")
			h.WaitAllEnded(t)
		})
	})

	// Code that passes a function on, or takes it apart, gets a working function or a clear error.
	t.Run("works or fails clearly in pools, pickles and children", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			const forked = "add: a forked child cannot call functions of the host: call in the parent, and pass the result on\n"
			r.WantOutput(t, `
from turnstone import add, echo, CallError
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor
import functools, inspect, pickle, copy, multiprocessing
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(add, range(5))), pool.submit(add, 1, b=2).result())
print(functools.partial(add, b=1)(2), copy.copy(add) is add, copy.deepcopy([add])[0] is add, inspect.iscoroutinefunction(add.async_))
print(pickle.loads(pickle.dumps(add.async_)) is add.async_)
`, "[0, 1, 2, 3, 4] 3\n3 True True True\nTrue\n")
			r.WantOutput(t, `
context = multiprocessing.get_context("fork")
with ProcessPoolExecutor(1, mp_context=context) as pool:
    try: pool.submit(add, 1).result()
    except Exception as e: print(type(e).__name__, e)
def child(q):
    try: q.put(add(1))
    except CallError as e: q.put(str(e))
q = context.Queue(); p = context.Process(target=child, args=(q,)); p.start(); print(q.get()); p.join()
`, "CallError "+forked+forked)
			r.WantOutput(t, `
import subprocess, sys, pickle
made = subprocess.run([sys.executable, "-c", "import sys, pickle; pickle.load(sys.stdin.buffer)"], input=pickle.dumps(add), capture_output=True)
print(made.returncode, made.stderr.decode().strip().splitlines()[-1])
`, "1 ModuleNotFoundError: No module named 'turnstone'\n")
			h.WaitAllEnded(t)
		})
	})

	// Types of numpy, pandas and polars are recognized by name, so fakes can stand in for the two that
	// are not installed.
	t.Run("converts values of numpy and data frames", func(t *testing.T) {
		t.Parallel()
		const path = "/usr/bin/python3" // the Python of Debian has numpy
		if exec.Command(path, "-c", "import numpy").Run() != nil {
			t.Skip("needs " + path + " with numpy")
		}
		r := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), python.Spec(python.Options{Path: path}))
		r.RunCode(t, "import numpy as np")
		r.WantOutput(t, `
from turnstone import echo
for v in (np.int64(-5), np.uint8(7), np.float32(1.5), np.bool_(True), np.str_("ü"), np.bytes_(b"x"), np.array([1, 2]), np.array([[1.5, np.nan]]), np.array(3), np.arange(100_000)):
    got = echo(v)
    if type(got).__module__ != "builtins" or not np.array_equal(np.asarray(got), np.asarray(v), equal_nan=np.asarray(v).dtype.kind == "f"): print(repr(v), got)
def stand_in(module, name, *bases):
    return type(name, bases, {"__module__": module})()
import datetime
print(echo([stand_in("pandas._libs.missing", "NAType"), stand_in("pandas._libs.tslibs", "NaTType", object)]))
for v in (np.datetime64("2026-01-01"), np.array(["2026-01-01"], "datetime64[ns]"), np.complex128(1), stand_in("pandas.core.frame", "DataFrame"), stand_in("polars.dataframe.frame", "DataFrame"), stand_in("polars.series", "Series")):
    try: echo(v)
    except TypeError as e: print(e)
`, `[None, None]
echo: argument value: a value of type datetime64 cannot be sent: use str(...), or a datetime with a zone
echo: argument value: a value of type datetime64 cannot be sent: use str(...), or a datetime with a zone
echo: argument value: a value of type complex cannot be sent: use a list of two numbers
echo: argument value: a value of type DataFrame cannot be sent: use to_dict("records")
echo: argument value: a value of type DataFrame cannot be sent: use to_dicts()
echo: argument value: a value of type Series cannot be sent: use to_list()
`)
	})

	// A thread that waits in a call reads for all threads. Other threads keep it from running, so the main
	// thread gets the signal before the frame has been sorted.
	t.Run("raises an interrupt once while another thread reads", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			h := sessionkit.NewTestHost()
			r := sessionkit.OpenWithHost(t, h, python.Spec(o))
			r.RunCode(t, `
import sys, threading
from turnstone import block, echo
sys.setswitchinterval(0.05)
def spin():
    while spinning: pass
def strikes():
    global spinning
    spinning = True
    waiting = threading.Thread(target=lambda: quiet(block, 'reader'), daemon=True)
    waiting.start()
    others = [threading.Thread(target=spin) for _ in range(3)]
    n = 0
    try:
        for x in others: x.start()
        echo('started')
        print('started', flush=True)
        while True: pass
    except KeyboardInterrupt:
        n += 1
    spinning = False
    try:
        for x in others: x.join()
        for i in range(20): echo(i)
        threading.Event().wait(.02)
        for i in range(20): echo(i)
    except KeyboardInterrupt:
        n += 1
    return n
def quiet(f, *args):
    try: f(*args)
    except Exception: pass
`)
			for i := range testmain.Rounds(12) {
				turn := r.StartTurn(t, "print('strikes:', strikes())")
				r.WaitEvent(t, "the loop", sessionkit.IsText("started"))
				if _, err := r.Interrupt(sessionkit.TimeoutContext(t), turn); err != nil {
					t.Fatal(err)
				}
				if res := r.FinishTurn(t, turn); !strings.Contains(res.OutputText(), "strikes: 1\n") {
					t.Fatalf("round %d: %s, %.1000q", i, res.Outcome, res.OutputText())
				}
			}
		})
	})
}

func TestFunction_ThousandOpenCalls(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		h := sessionkit.NewTestHost()
		r := sessionkit.OpenWithHost(t, h, python.Spec(o))
		before := runtime.NumGoroutine()
		for _, how := range []string{"reset", "kill"} {
			r.RunCode(t, `
import threading, turnstone, os, signal
threading.stack_size(256 << 10)
for i in range(1024): threading.Thread(target=turnstone.block, args=("x",), daemon=True).start()
`)
			for range 1024 {
				<-h.BlockStarted
			}
			res := r.RunCode(t, "turnstone.add(1)")
			if !strings.Contains(res.OutputText(), "1024 calls are open already") {
				t.Errorf("the 1025th call: %q", res.OutputText())
			}
			if how == "kill" {
				r.RunCode(t, "os.kill(os.getpid(), signal.SIGKILL)")
			}
			r.RestartWorker(t)
			h.WaitAllEnded(t)
			r.WantOutput(t, "import turnstone; turnstone.add(1)", "1\n")
		}
		wait.Until(t, fmt.Sprintf("there are the %d goroutines of before", before), func() bool { return runtime.NumGoroutine() <= before+4 })
	})
}
