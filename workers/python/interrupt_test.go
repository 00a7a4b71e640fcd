//go:build linux || darwin

package python_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the turn, keeps the worker", func(t *testing.T) {
		t.Parallel()
		cases := []struct{ name, code string }{
			{"a loop", "print('up', flush=True)\nwhile True: pass"},
			{"sleep", "import time; print('up', flush=True); time.sleep(100)"},
			{"a lock", "import _thread; l = _thread.allocate_lock(); l.acquire(); print('up', flush=True); l.acquire()"},
			{"join", "import threading, time; t = threading.Thread(target=time.sleep, args=(100,), daemon=True); t.start(); print('up', flush=True); t.join()"},
			{"a child", "import subprocess; print('up', flush=True); subprocess.run(['sleep', '100'])"},
			// The child reports its start, since an interrupt while Python starts it may miss it.
			{"a reading child", "import subprocess; subprocess.run(['sh', '-c', 'echo up; exec cat'])"},
			{"os.read", "import os; print('up', flush=True); os.read(0, 1)"},
			{"asyncio", "import asyncio\nasync def main():\n    asyncio.get_running_loop().call_later(0.01, print, 'up')\n    await asyncio.sleep(100)\nasyncio.run(main())"},
			{"os.system again and again", "import os; print('up', flush=True)\nwhile True: os.system('sleep 1')"},
			{"a flood", "print('up', flush=True)\nwhile True: print('x' * 10)"},
			{"a bulk flood", "print('up', flush=True)\nwhile True: print('x' * 100000)"},
			{"an error being shown", "class E(Exception):\n    def __str__(self):\n        print('up', flush=True)\n        while True: pass\nraise E"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range cases {
				w.StartTurn(c.code)
				w.WaitOutput("up")
				r := w.interruptUntil(1, 1, nil)
				want, message := ipc.OutcomeInterrupted, ""
				if c.name == "an error being shown" {
					want, message = ipc.OutcomeError, "\nE: "
				}
				if r.Idle == nil || r.Idle.Outcome != want || !strings.Contains("\n"+r.ErrText(), message) || strings.Contains(r.ErrText(), "turnstone") {
					t.Errorf("%s: got %+v %.2000q", c.name, r.Idle, r.ErrText())
				}
				if r := w.RunCode("1"); r.OutputText() != "1\n" {
					t.Errorf("%s: the next turn got %q", c.name, r.Transcript())
				}
			}
		})
	})

	t.Run("after a canceled input request the next input is code", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for range 20 {
				w.OnInputRequest = func(ipc.StdinWait) bool {
					w.sendInterrupt(1, 1)
					return true
				}
				if r := w.RunCode("input('? ')"); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.HasSuffix(r.ErrText(), "KeyboardInterrupt\n") {
					t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
				}
				w.OnInputRequest = nil
				w.RunCode("'code'").WantOutput(t, "'code'\n")
			}
		})
	})

	t.Run("leaves a SIGINT of user code to Python", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('raised')").WantOutput(t, "raised\n")
			w.RunCode("signal.getsignal(signal.SIGINT) is signal.default_int_handler").WantOutput(t, "True\n")
		})
	})

	// An interrupt that a finalizer ignored is raised again when the interrupted code continues.
	t.Run("is raised again if a finalizer ignored it", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import sys\nseen = []\ndef hook(args): seen.append(args.exc_type)\nsys.unraisablehook = hook")
			w.StartTurn("class Slow:\n    def __del__(self):\n        print('up', flush=True)\n        while True: pass\nwhile True: Slow()")
			w.WaitOutput("up")
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || strings.Contains(r.OutputText(), "ignored") || strings.Contains(r.OutputText(), "turnstone") {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("class Bad:\n    def __del__(self): 1/0\nBad(); sys.unraisablehook is hook, seen").WantOutput(t, "(True, [<class 'ZeroDivisionError'>])\n")
			w.RunCode("sys.gettrace() is None").WantOutput(t, "True\n")
		})
	})

	// A debugger that continues leaves its SIGINT handler behind, which would stop the next turn in it.
	t.Run("a debugger does not catch the interrupt of the next turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import pdb, time\ndef f():\n    pdb.set_trace()\n    return 1")
			w.RunCode("f()", "c")
			w.StartTurn("print('up', flush=True); time.sleep(100)")
			w.WaitOutput("up")
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.HasSuffix(r.ErrText(), "KeyboardInterrupt\n") {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})

	// After an interrupted await nothing prints later, and the next await works.
	t.Run("an interrupted await leaves the event loop usable", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import asyncio, gc")
			for i := range testmain.Rounds(20) {
				w.StartTurn("await asyncio.sleep(100)")
				wait.Spin(time.Duration(rand.IntN(1500)) * time.Microsecond)
				// An interrupt within asyncio itself shows its lines.
				if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || strings.Contains(r.Transcript(), "destroyed") || strings.Contains(r.Transcript(), "never retrieved") {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
				if r := w.RunCode("_ = gc.collect(); await asyncio.sleep(0, 'slept')"); r.OutputText() != "'slept'\n" {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
			}
			if r := w.RunCode("await asyncio.sleep(0); 1/0"); strings.Contains(r.ErrText(), "base_events") || !strings.Contains(r.ErrText(), "ZeroDivisionError") {
				t.Fatalf("got %q", r.ErrText())
			}
		})
	})
}

func printsText(s string) func(any) bool {
	return func(e any) bool {
		t, ok := e.(rawworker.MergedText)
		return ok && strings.Contains(t.Data, s)
	}
}

func TestInterruptLevelTwo(t *testing.T) {
	t.Parallel()

	t.Run("code cannot swallow it", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.StartTurn("import time\nwhile True:\n    try:\n        print('up', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt: print('no', flush=True)")
			w.WaitOutput("up")
			w.interruptUntil(1, 1, printsText("no"))
			if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.Contains(r.ErrText(), "TurnAborted") {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})

	t.Run("ends the debugger and overrides a handler of the user", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import os, pdb, signal, time")
			w.StartTurn("def f():\n    pdb.set_trace()\n    return 1\nf()")
			w.WaitInputRequest()
			w.interruptUntil(1, 1, func(e any) bool { _, asks := e.(ipc.StdinWait); return asks })
			if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.StartTurn("_ = signal.signal(signal.SIGINT, lambda *a: os.write(1, b'no\\n')); print('up', flush=True)\nwhile True: time.sleep(1)")
			w.WaitOutput("up")
			w.interruptUntil(1, 1, printsText("no"))
			if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})
}

func TestInterruptStale(t *testing.T) {
	t.Parallel()

	// Retries may come while the previous one is being handled.
	t.Run("a retry of a raised interrupt does nothing", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import os, time")
			for i := range testmain.Rounds(10) {
				all := filepath.Join(t.TempDir(), "all")
				w.StartTurn(fmt.Sprintf(`try:
    print('up', flush=True)
    time.sleep(100)
except KeyboardInterrupt: print('once', flush=True)
while not os.path.exists(%q): time.sleep(0.001)`, all))
				w.WaitOutput("up")
				w.interruptUntil(1, 1, printsText("once"))
				for range 20 {
					w.sendInterrupt(1, 1)
				}
				if err := os.WriteFile(all, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if r := w.FinishTurn(); r.Idle.Outcome != ipc.OutcomeOK {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
			}
		})
	})

	// A turn starts after every earlier signal was sent, but a signal may arrive once the turn has started.
	t.Run("a late interrupt is stale", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("1")
		w.SendMessage(ipc.Interrupt{Turn: 1, Seq: 1, Level: 1})
		syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
		w.StartTurn("import time; time.sleep(0.05); 'unharmed'")
		r := w.FinishTurn()
		var acks []ipc.InterruptAck
		for _, e := range r.Events {
			if a, ok := e.(ipc.InterruptAck); ok {
				acks = append(acks, a)
			}
		}
		if r.OutputText() != "'unharmed'\n" || len(acks) != 1 || acks[0] != (ipc.InterruptAck{Turn: 1, Seq: 1, Result: ipc.InterruptStale}) {
			t.Fatalf("got %q, %+v", r.Transcript(), acks)
		}
	})
}

func TestSigintOwner(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		owners := func(r result) (list []ipc.SigintOwner) {
			for _, e := range r.Events {
				if m, ok := e.(ipc.Sigint); ok {
					list = append(list, m.Owner)
				}
			}
			return list
		}
		if got := owners(w.RunCode("import signal\nn = 0\ndef mine(*a):\n    global n; n += 1\nold = signal.signal(signal.SIGINT, mine)")); len(got) != 1 || got[0] != ipc.SigintUser {
			t.Fatalf("got %v", got)
		}
		w.StartTurn("import time\nprint('up', flush=True)\nwhile not n: time.sleep(0.01)\ntime.sleep(0.1); print('n', n)")
		w.WaitOutput("up")
		w.sendInterrupt(1, 1)
		if r := w.FinishTurn(); r.OutputText() != "n 1\n" || r.Idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("the user's handler: got %q %+v", r.Transcript(), r.Idle)
		}
		r := w.RunCode("signal.signal(signal.SIGINT, old) is mine")
		if got := owners(r); r.OutputText() != "True\n" || got[len(got)-1] != ipc.SigintOurs {
			t.Fatalf("got %q %v", r.Transcript(), got)
		}
		r = w.RunCode("signal.signal(signal.SIGINT, signal.SIG_IGN); None")
		if got := owners(r); len(got) != 1 || got[0] != ipc.SigintIgnored {
			t.Fatalf("got %v", got)
		}
		w.RunCode("signal.signal(signal.SIGINT, signal.default_int_handler); None")
		w.StartTurn("time.sleep(100)")
		if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %+v", r.Idle)
		}
	})
}

func TestInterruptRace(t *testing.T) {
	t.Parallel()

	// An interrupt at a random moment around the end of a turn: the turn is interrupted
	// or not, and the next turn is not affected.
	t.Run("at the end of a turn it never reaches the next one", func(t *testing.T) {
		t.Parallel()
		cells := []string{"1+1", "x = 1", "print('x' * 5000)", "1/0", "import time; time.sleep(0.0001)", "for i in range(2000): pass"}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for i := range testmain.Rounds(150) {
				w.StartTurn(cells[i%len(cells)])
				wait.Spin(time.Duration(rand.IntN(500)) * time.Microsecond)
				w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
				syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
				w.FinishTurn()
				if i%3 == 0 {
					syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
				}
				if r := w.RunCode("'next'"); r.OutputText() != "'next'\n" || r.Idle.Outcome != ipc.OutcomeOK {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
			}
		})
	})

	t.Run("at the start of a turn it is not lost", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for i := range testmain.Rounds(150) {
				w.StartTurn("import time; time.sleep(100)")
				wait.Spin(time.Duration(rand.IntN(300)) * time.Microsecond)
				if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
			}
		})
	})

	t.Run("racing an answer leaves no input behind", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for i := range testmain.Rounds(100) {
				w.OnInputRequest = func(m ipc.StdinWait) bool {
					w.AnswerRequest(m, "old")
					wait.Spin(time.Duration(rand.IntN(200)) * time.Microsecond)
					w.sendInterrupt(1, 1)
					return true
				}
				w.RunCode("x = input()")
				w.OnInputRequest = nil
				if r := w.RunCode("print(input())", "new"); r.OutputText() != "new\n" {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.Idle)
				}
			}
		})
	})
}

func TestAsyncExceptions(t *testing.T) {
	t.Parallel()

	// A user's SIGALRM handler that raises may strike in the middle of a frame.
	t.Run("output survives them", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.RunCode(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
hits = 0
for i in range(` + strconv.Itoa(testmain.Rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
        print('%d|' % i + 'x' * 6000)
        print('%d-' % i, file=sys.stderr)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm: hits += 1
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: hits += 1
print('hits', hits > 0)`)
			if !strings.Contains(r.OutputText()[max(0, len(r.OutputText())-30):], "hits True\n") { // a last stderr line may follow
				t.Fatalf("got … %.300q %+v", r.OutputText()[max(0, len(r.OutputText())-300):], r.Idle)
			}
			for line := range strings.Lines(r.ErrText()) {
				if strings.Count(r.ErrText(), "\n"+line) > 1 {
					t.Fatalf("%q came twice", line)
				}
			}
			w.RunCode("signal.setitimer(signal.ITIMER_REAL, 0); 1").WantOutput(t, "(0.0, 0.0)\n1\n"[len("(0.0, 0.0)\n"):])
		})
	})

	// A trace function raises before each instruction in turn, as a handler of signals may.
	t.Run("a write is complete wherever one is raised", func(t *testing.T) {
		t.Parallel()
		t.Run("is complete or not started, wherever an exception strikes", func(t *testing.T) {
			t.Parallel()
			eachPython(t, func(t *testing.T, s workerSetup) {
				w := startWorker(t, s)
				r := w.RunCode(`import gc, os, sys
atomic = next(m for m in gc.get_objects() if type(m) is type(gc) and m.__name__ == "turnstone_worker.atomic")
class Strike(Exception): pass
sys._getframe().f_trace_opcodes = True # Python 3.12 looks for such a frame when tracing begins

def write(at):
    count = 0
    def trace(frame, event, arg):
        nonlocal count
        if frame.f_globals is not vars(atomic): return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at: raise Strike
        return trace
    r, w = os.pipe()
    struck = False
    sys.settrace(trace)
    try: atomic.write_all([(w, b"mark;"), (w, b"frame;")])
    except Strike: struck = True
    finally: sys.settrace(None)
    os.close(w)
    with open(r, "rb") as f: return f.read(), struck

at, torn = 0, []
while True:
    at += 1
    text, struck = write(at)
    if text not in (b"", b"mark;frame;"): torn.append((at, text))
    if not struck: break
print(at > 50, torn)`)
				if r.OutputText() != "True []\n" {
					t.Errorf("got %q, want no torn output", r.Transcript())
				}
			})
		})
	})

	t.Run("input survives them", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				w.AnswerRequest(m, "line")
				return true
			}
			r := w.RunCode(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
bad = []
for i in range(` + strconv.Itoa(testmain.Rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 6e-4))
        s = input()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if s not in ('line', ''): bad.append(s)
    except Alarm: pass
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: pass
print('bad', bad)`)
			if !strings.HasSuffix(r.OutputText(), "bad []\n") {
				t.Fatalf("got … %.300q %+v", r.OutputText()[max(0, len(r.OutputText())-300):], r.Idle)
			}
			w.RunCode("input()").WantOutput(t, "'line'\n")
		})
	})

	// If an exception were lost, the code would still wait for an answer.
	t.Run("a question ends wherever one is raised", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Env = append(s.Env, "TERM=xterm") // a user's terminal, whose keys may be read
			w := startWorker(t, s)
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				w.AnswerRequest(m, "line")
				return true
			}
			r := w.RunCode(`import sys
class Strike(TimeoutError, ValueError): pass # which the worker expects of streams
sys._getframe().f_trace_opcodes = True # Python 3.12 looks for such a frame when tracing begins

def ask(at):
    count, where = 0, None
    def trace(frame, event, arg):
        nonlocal count, where
        _, of_worker, module = frame.f_globals["__name__"].partition("turnstone_worker.")
        if not of_worker or module == "codec": return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                where = frame.f_code.co_name, frame.f_lineno
                raise Strike
        return trace
    sys.modules.pop("termios", None) # as if no question had been asked before
    sys.settrace(trace)
    try: input()
    except Strike: return where, False
    finally: sys.settrace(None)
    return where, where is not None

at, lost = 0, []
while True:
    at += 1
    where, swallowed = ask(at)
    if where is None: break
    if swallowed and where not in lost: lost.append(where)
    input() # reads the answer to a question that nobody asks any more
print(at > 200, lost)`)
			if r.OutputText() != "True []\n" {
				t.Errorf("got %q and %q, want no lost exception", r.OutputText(), r.ErrText())
			}
		})
	})
}
