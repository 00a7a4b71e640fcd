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

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/tests/rawworker"
)

func TestInterrupt_EndsTheTurnAndNotTheWorker(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, code string }{
		{"a loop", "print('up', flush=True)\nwhile True: pass"},
		{"sleep", "import time; print('up', flush=True); time.sleep(100)"},
		{"a lock", "import _thread; l = _thread.allocate_lock(); l.acquire(); print('up', flush=True); l.acquire()"},
		{"join", "import threading, time; t = threading.Thread(target=time.sleep, args=(100,), daemon=True); t.start(); print('up', flush=True); t.join()"},
		{"a child", "import subprocess; print('up', flush=True); subprocess.run(['sleep', '100'])"},
		// The child says that it is there: an interrupt while Python starts it may miss it.
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
			w.Begin(c.code)
			w.Await("up")
			r := w.interruptUntil(1, 1, nil)
			want, told := ipc.OutcomeInterrupted, ""
			if c.name == "an error being shown" {
				want, told = ipc.OutcomeError, "\nE: "
			}
			if r.Idle == nil || r.Idle.Outcome != want || !strings.Contains("\n"+r.ErrText(), told) || strings.Contains(r.ErrText(), "turnstone") {
				t.Errorf("%s: got %+v %.2000q", c.name, r.Idle, r.ErrText())
			}
			if r := w.Run("1"); r.Out() != "1\n" {
				t.Errorf("%s: the next turn got %q", c.name, r.Script())
			}
		}
	})
}

func printsText(s string) func(any) bool {
	return func(e any) bool {
		t, ok := e.(rawworker.Text)
		return ok && strings.Contains(t.Data, s)
	}
}

func TestInterrupt_OfAWaitMakesTheNextInputCode(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		for range 20 {
			w.OnWait = func(ipc.StdinWait) bool {
				w.sendInterrupt(1, 1)
				return true
			}
			if r := w.Run("input('? ')"); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.HasSuffix(r.ErrText(), "KeyboardInterrupt\n") {
				t.Fatalf("got %q %+v", r.Script(), r.Idle)
			}
			w.OnWait = nil
			w.Run("'code'").Wants(t, "'code'\n")
		}
	})
}

func TestInterrupt_LevelTwoIsNotSwallowed(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Begin("import time\nwhile True:\n    try:\n        print('up', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt: print('no', flush=True)")
		w.Await("up")
		w.interruptUntil(1, 1, printsText("no"))
		if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.Contains(r.ErrText(), "TurnAborted") {
			t.Fatalf("got %q %+v", r.Script(), r.Idle)
		}
	})
}

// Also when retries come while that of the one before is looked into.
func TestInterrupt_RetryOfOneThatWasRaisedDoesNothing(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import os, time")
		for i := range rawworker.Rounds(10) {
			all := filepath.Join(t.TempDir(), "all")
			w.Begin(fmt.Sprintf(`try:
    print('up', flush=True)
    time.sleep(100)
except KeyboardInterrupt: print('once', flush=True)
while not os.path.exists(%q): time.sleep(0.001)`, all))
			w.Await("up")
			w.interruptUntil(1, 1, printsText("once"))
			for range 20 {
				w.sendInterrupt(1, 1)
			}
			if err := os.WriteFile(all, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := w.Finish(); r.Idle.Outcome != ipc.OutcomeOK {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
		}
	})
}

// A turn begins when every signal before it was sent; it may strike once the turn has begun.
func TestInterrupt_ThatIsLateIsStale(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	w.Run("1")
	w.Tell(ipc.Interrupt{Turn: 1, Seq: 1, Level: 1})
	syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
	w.Begin("import time; time.sleep(0.05); 'unharmed'")
	r := w.Finish()
	var acks []ipc.InterruptAck
	for _, e := range r.Events {
		if a, ok := e.(ipc.InterruptAck); ok {
			acks = append(acks, a)
		}
	}
	if r.Out() != "'unharmed'\n" || len(acks) != 1 || acks[0] != (ipc.InterruptAck{Turn: 1, Seq: 1, Result: ipc.InterruptStale}) {
		t.Fatalf("got %q, %+v", r.Script(), acks)
	}
}

func TestInterrupt_SignalOfUserCodeIsPythons(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('raised')").Wants(t, "raised\n")
		w.Run("signal.getsignal(signal.SIGINT) is signal.default_int_handler").Wants(t, "True\n")
	})
}

func TestSigint_OwnerIsAnnounced(t *testing.T) {
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
		if got := owners(w.Run("import signal\nn = 0\ndef mine(*a):\n    global n; n += 1\nold = signal.signal(signal.SIGINT, mine)")); len(got) != 1 || got[0] != ipc.SigintUser {
			t.Fatalf("got %v", got)
		}
		w.Begin("import time\nprint('up', flush=True)\nwhile not n: time.sleep(0.01)\ntime.sleep(0.1); print('n', n)")
		w.Await("up")
		w.sendInterrupt(1, 1)
		if r := w.Finish(); r.Out() != "n 1\n" || r.Idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("the user's handler: got %q %+v", r.Script(), r.Idle)
		}
		r := w.Run("signal.signal(signal.SIGINT, old) is mine")
		if got := owners(r); r.Out() != "True\n" || got[len(got)-1] != ipc.SigintOurs {
			t.Fatalf("got %q %v", r.Script(), got)
		}
		r = w.Run("signal.signal(signal.SIGINT, signal.SIG_IGN); None")
		if got := owners(r); len(got) != 1 || got[0] != ipc.SigintIgnored {
			t.Fatalf("got %v", got)
		}
		w.Run("signal.signal(signal.SIGINT, signal.default_int_handler); None")
		w.Begin("time.sleep(100)")
		if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %+v", r.Idle)
		}
	})
}

// An interrupt at a random moment around the end of a turn: the turn is interrupted
// or not, and nothing of it reaches the next one.
func TestInterrupt_AtTheTurnsEndNeverLeaks(t *testing.T) {
	t.Parallel()
	cells := []string{"1+1", "x = 1", "print('x' * 5000)", "1/0", "import time; time.sleep(0.0001)", "for i in range(2000): pass"}
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		for i := range rawworker.Rounds(150) {
			w.Begin(cells[i%len(cells)])
			rawworker.Spin(time.Duration(rand.IntN(500)) * time.Microsecond)
			w.Tell(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
			syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
			w.Finish()
			if i%3 == 0 {
				syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
			}
			if r := w.Run("'next'"); r.Out() != "'next'\n" || r.Idle.Outcome != ipc.OutcomeOK {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
		}
	})
}

func TestInterrupt_AtTheTurnsStartIsNotLost(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		for i := range rawworker.Rounds(150) {
			w.Begin("import time; time.sleep(100)")
			rawworker.Spin(time.Duration(rand.IntN(300)) * time.Microsecond)
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
		}
	})
}

func TestInterrupt_RacingAnAnswerLeavesNoInput(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		for i := range rawworker.Rounds(100) {
			w.OnWait = func(m ipc.StdinWait) bool {
				w.Answer(m, "old")
				rawworker.Spin(time.Duration(rand.IntN(200)) * time.Microsecond)
				w.sendInterrupt(1, 1)
				return true
			}
			w.Run("x = input()")
			w.OnWait = nil
			if r := w.Run("print(input())", "new"); r.Out() != "new\n" {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
		}
	})
}

// A user's SIGALRM handler that raises may strike in the middle of a frame.
func TestOutput_SurvivesAsynchronousExceptions(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		r := w.Run(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
hits = 0
for i in range(` + strconv.Itoa(rawworker.Rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
        print('%d|' % i + 'x' * 6000)
        print('%d-' % i, file=sys.stderr)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm: hits += 1
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: hits += 1
print('hits', hits > 0)`)
		if !strings.Contains(r.Out()[max(0, len(r.Out())-30):], "hits True\n") { // a last stderr line may follow
			t.Fatalf("got … %.300q %+v", r.Out()[max(0, len(r.Out())-300):], r.Idle)
		}
		for line := range strings.Lines(r.ErrText()) {
			if strings.Count(r.ErrText(), "\n"+line) > 1 {
				t.Fatalf("%q came twice", line)
			}
		}
		w.Run("signal.setitimer(signal.ITIMER_REAL, 0); 1").Wants(t, "(0.0, 0.0)\n1\n"[len("(0.0, 0.0)\n"):])
	})
}

// A trace function raises before each instruction in turn, as a handler of signals may.
func TestWrite(t *testing.T) {
	t.Parallel()
	t.Run("is whole or not begun, wherever an exception strikes", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.Run(`import gc, os, sys
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
			if r.Out() != "True []\n" {
				t.Errorf("got %q, want that nothing is torn", r.Script())
			}
		})
	})
}

func TestInput_SurvivesAsynchronousExceptions(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.OnWait = func(m ipc.StdinWait) bool {
			w.Answer(m, "line")
			return true
		}
		r := w.Run(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
bad = []
for i in range(` + strconv.Itoa(rawworker.Rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 6e-4))
        s = input()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if s not in ('line', ''): bad.append(s)
    except Alarm: pass
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: pass
print('bad', bad)`)
		if !strings.HasSuffix(r.Out(), "bad []\n") {
			t.Fatalf("got … %.300q %+v", r.Out()[max(0, len(r.Out())-300):], r.Idle)
		}
		w.Run("input()").Wants(t, "'line'\n")
	})
}

// An interrupt that a finalizer ignored strikes again when the interrupted code goes on.
func TestInterrupt_IgnoredInAFinalizerStrikesAgain(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import sys\nseen = []\ndef hook(args): seen.append(args.exc_type)\nsys.unraisablehook = hook")
		w.Begin("class Slow:\n    def __del__(self):\n        print('up', flush=True)\n        while True: pass\nwhile True: Slow()")
		w.Await("up")
		if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || strings.Contains(r.Out(), "ignored") || strings.Contains(r.Out(), "turnstone") {
			t.Fatalf("got %q %+v", r.Script(), r.Idle)
		}
		w.Run("class Bad:\n    def __del__(self): 1/0\nBad(); sys.unraisablehook is hook, seen").Wants(t, "(True, [<class 'ZeroDivisionError'>])\n")
		w.Run("sys.gettrace() is None").Wants(t, "True\n")
	})
}

func TestInterrupt_LevelTwoLeavesTheDebuggerAndAHandlerOfTheUser(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import os, pdb, signal, time")
		w.Begin("def f():\n    pdb.set_trace()\n    return 1\nf()")
		w.UntilWait()
		w.interruptUntil(1, 1, func(e any) bool { _, asks := e.(ipc.StdinWait); return asks })
		if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %q %+v", r.Script(), r.Idle)
		}
		w.Begin("_ = signal.signal(signal.SIGINT, lambda *a: os.write(1, b'no\\n')); print('up', flush=True)\nwhile True: time.sleep(1)")
		w.Await("up")
		w.interruptUntil(1, 1, printsText("no"))
		if r := w.interruptUntil(2, 2, nil); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %q %+v", r.Script(), r.Idle)
		}
	})
}

// A debugger that goes on leaves its handler of SIGINT behind, which would stop the next turn in it.
func TestInterrupt_DebuggerHasNoneOfTheNextTurn(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import pdb, time\ndef f():\n    pdb.set_trace()\n    return 1")
		w.Run("f()", "c")
		w.Begin("print('up', flush=True); time.sleep(100)")
		w.Await("up")
		if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || !strings.HasSuffix(r.ErrText(), "KeyboardInterrupt\n") {
			t.Fatalf("got %q %+v", r.Script(), r.Idle)
		}
	})
}

// An interrupted await leaves nothing that prints later, and the next await works.
func TestInterrupt_OfAnAwaitLeavesTheLoopWhole(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.Run("import asyncio, gc")
		for i := range rawworker.Rounds(20) {
			w.Begin("await asyncio.sleep(100)")
			rawworker.Spin(time.Duration(rand.IntN(1500)) * time.Microsecond)
			// An interrupt within asyncio itself shows its lines.
			if r := w.interruptUntil(1, 1, nil); r.Idle.Outcome != ipc.OutcomeInterrupted || strings.Contains(r.Script(), "destroyed") || strings.Contains(r.Script(), "never retrieved") {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
			if r := w.Run("_ = gc.collect(); await asyncio.sleep(0, 'slept')"); r.Out() != "'slept'\n" {
				t.Fatalf("round %d: got %q %+v", i, r.Script(), r.Idle)
			}
		}
		if r := w.Run("await asyncio.sleep(0); 1/0"); strings.Contains(r.ErrText(), "base_events") || !strings.Contains(r.ErrText(), "ZeroDivisionError") {
			t.Fatalf("got %q", r.ErrText())
		}
	})
}
