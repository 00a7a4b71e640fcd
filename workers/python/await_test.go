//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// wantOutputs runs inputs in one session, and compares the output of each.
func wantOutputs(t *testing.T, s workerSetup, inputs ...[2]string) {
	t.Helper()
	w := startWorker(t, s)
	for _, in := range inputs {
		if r := w.RunCode(in[0]); r.OutputText() != in[1] || r.Idle == nil {
			t.Fatalf("%q: got %q %+v; want %q", in[0], r.Transcript(), r.Idle, in[1])
		}
	}
}

func TestAwaitContext(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, inputs := range map[string][][2]string{
			"an input with an await sets variables": {
				{"import asyncio, contextvars, decimal\nv = contextvars.ContextVar('v', default='unset')", ""},
				{"await asyncio.sleep(0); v.set('set'); v.get()", "'set'\n"},
				{"v.get()", "'set'\n"},
				{"await asyncio.sleep(0); decimal.setcontext(decimal.Context(prec=5))", ""},
				{"decimal.Decimal(1) / 3", "Decimal('0.33333')\n"},
				{"v.set('later'); await asyncio.sleep(0, v.get())", "'later'\n"},
			},
			"a token of one input resets in another": {
				{"import asyncio, contextvars\nv = contextvars.ContextVar('v', default='unset')\nt = v.set(1)", ""},
				{"await asyncio.sleep(0); v.reset(t)\nt = v.set(2)", ""},
				{"v.reset(t); v.get()", "'unset'\n"},
			},
			"a task has its own": {
				{"import asyncio, contextvars\nv = contextvars.ContextVar('v', default='unset')\nasync def f():\n    v.set('inner')\n    await asyncio.sleep(0)\n    return v.get()", ""},
				{"await asyncio.create_task(f())", "'inner'\n"},
				{"v.get()", "'unset'\n"},
				{"await f()", "'inner'\n"},
				{"v.get()", "'inner'\n"},
			},
			"an error keeps what was set before it": {
				{"import asyncio, contextvars\nv = contextvars.ContextVar('v')", ""},
				{"try: await asyncio.wait_for(asyncio.sleep(9), 0.001)\nexcept asyncio.TimeoutError: v.set('late')", ""},
				{"v.get()", "'late'\n"},
			},
			"exit handlers see them": {
				{"import asyncio, atexit, contextvars\nv = contextvars.ContextVar('v', default='unset')\n_ = atexit.register(lambda: print(v.get()))", ""},
				{"await asyncio.sleep(0); v.set('saved');", ""},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name != "exit handlers see them" {
					wantOutputs(t, s, inputs...)
					return
				}
				w := startWorker(t, s)
				for _, in := range inputs {
					w.RunCode(in[0]).WantOutput(t, in[1])
				}
				if r := w.RunCode("exit()"); r.End == nil || !strings.Contains(r.OutputText(), "saved\n") {
					t.Errorf("got %q %+v", r.Transcript(), r.End)
				}
			})
		}
	})
}

func TestAwaitLoop(t *testing.T) {
	t.Parallel()
	const prepared = "import asyncio\nasync def f(x): return x\nasync def late(x):\n    await asyncio.sleep(0.001)\n    return x"
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, inputs := range map[string][][2]string{
			"a future of an input without an await": {
				{prepared + "\nt = asyncio.ensure_future(f(42))", ""},
				{"await t", "42\n"},
			},
			"a task starts after its input": {
				{prepared, ""},
				{"async def say(): print('said')\nt = asyncio.create_task(say()); t.done()", "False\nsaid\n"},
				{"t.done()", "True\n"},
			},
			"a waiting task is reported once": {
				{prepared + "\nt = asyncio.create_task(late(7))", "[1 task is not done: it goes on while an input with an await runs, and not between inputs]\n"},
				{"u = asyncio.create_task(late(8))", ""},
				{"await t, await u", "(7, 8)\n"},
			},
			"gather": {
				{prepared + "\ng = asyncio.gather(f(1), f(2))", ""},
				{"await g", "[1, 2]\n"},
			},
			"the current loop": {
				{prepared + "\nloop = asyncio.get_event_loop()", ""},
				{"await asyncio.sleep(0); asyncio.get_running_loop() is loop", "True\n"},
				{"loop.run_until_complete(f(3))", "3\n"},
				{"asyncio.run(f(4))", "4\n"},
				{"asyncio.get_event_loop() is loop", "True\n"},
				{"t = loop.create_task(f(5))", ""},
				{"await t", "5\n"},
			},
			"a loop that the user made": {
				{prepared + "\nmine = asyncio.new_event_loop(); asyncio.set_event_loop(mine); t = mine.create_task(f(6))", ""},
				{"await t", "6\n"},
				{"await asyncio.sleep(0); asyncio.get_running_loop() is mine", "True\n"},
			},
			"a later loop that the user made, with a task": {
				{prepared + "\nawait f(0)", "0\n"},
				{"mine = asyncio.new_event_loop(); asyncio.set_event_loop(mine); t = mine.create_task(f(6))", ""},
				{"await t", "6\n"},
			},
			"locks and queues of an input without an await": {
				{prepared + "\nlock = asyncio.Lock(); q = asyncio.Queue()", ""},
				{"async def w():\n    async with lock: await asyncio.sleep(0.001)\nawait asyncio.gather(w(), w())\nawait asyncio.gather(q.get(), q.put(1))", "[1, None]\n"},
			},
			"a closed loop is replaced": {
				{prepared + "\nasyncio.get_event_loop().close()", ""},
				{"await f(1)", "1\n"},
				{"t = asyncio.ensure_future(f(2))", ""},
				{"await t", "2\n"},
			},
			"code asks whether a loop runs": {
				{"import asyncio\ntry: asyncio.get_running_loop()\nexcept RuntimeError as e: print(e)", "no running event loop\n"},
				{"import threading\ndef g():\n    try: asyncio.get_event_loop()\n    except RuntimeError: print('none')\nt = threading.Thread(target=g); t.start(); t.join()", "none\n"},
			},
			"a callback of the loop starts after the input": {
				{"import asyncio\nawait asyncio.sleep(0)", ""},
				{"loop = asyncio.get_event_loop(); t = loop.create_task(asyncio.sleep(0, 5)); _ = loop.call_soon(print, 'soon')", "soon\n"},
				{"_ = loop.call_soon(print, 'again')", "again\n"},
				{"await t", "5\n"},
			},
			"a StopIteration keeps its type": {
				{"import asyncio\ntry: await asyncio.sleep(0); next(iter([]))\nexcept StopIteration: print('caught')", "caught\n"},
			},
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); wantOutputs(t, s, inputs...) })
		}
		t.Run("a StopIteration ends an input and keeps its type", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			for _, code := range []string{"await asyncio.sleep(0); next(iter([]))", "x = next(iter([]))\nawait asyncio.sleep(0)"} {
				r := w.RunCode("import asyncio\n" + code)
				if r.Idle.Outcome != ipc.OutcomeError || r.Idle.Error.Name != "StopIteration" || !strings.HasSuffix(r.ErrText(), "StopIteration\n") || strings.Contains(r.ErrText(), "coroutine") {
					t.Errorf("got %q %+v", r.Transcript(), r.Idle)
				}
			}
			r := w.RunCode("async def inner(): next(iter([]))\nawait inner()")
			if r.Idle.Error == nil || r.Idle.Error.Name != "RuntimeError" {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
		t.Run("a task that raises an interrupt leaves no warning", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			r := w.RunCode("import asyncio\nasync def bar(): raise KeyboardInterrupt\nt = asyncio.ensure_future(bar())\nawait asyncio.sleep(1)\n")
			if strings.Contains(r.ErrText(), "never awaited") || r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("t = asyncio.ensure_future(bar())")
			if r := w.RunCode("await t"); strings.Contains(r.ErrText(), "never awaited") || strings.Contains(r.ErrText(), "Loops") {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("await asyncio.sleep(0, 'still')").WantOutput(t, "'still'\n")
		})
		t.Run("an interrupt ends a task that starts after an input", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			w.RunCode("import asyncio, time\nasync def busy():\n    print('up')\n    while True: time.sleep(0.01)")
			w.StartTurn("t = asyncio.create_task(busy())")
			w.WaitOutput("up\n")
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("await asyncio.sleep(0, 'still')").WantOutput(t, "'still'\n")
		})
	})
}
