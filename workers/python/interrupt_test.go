//go:build linux || darwin

package python_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// rounds is how often a race is run: few times, or TURNSTONE_TEST_ROUNDS.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("TURNSTONE_TEST_ROUNDS")); err == nil {
		return n
	}
	return few
}

func TestInterrupt_EndsTheTurnAndNotTheWorker(t *testing.T) {
	cases := []struct{ name, code string }{
		{"a loop", "print('up', flush=True)\nwhile True: pass"},
		{"sleep", "import time; print('up', flush=True); time.sleep(100)"},
		{"a lock", "import _thread; l = _thread.allocate_lock(); l.acquire(); print('up', flush=True); l.acquire()"},
		{"join", "import threading, time; t = threading.Thread(target=time.sleep, args=(1,), daemon=True); t.start(); print('up', flush=True); t.join()"},
		{"a child", "import subprocess; print('up', flush=True); subprocess.run(['sleep', '100'])"},
		{"a reading child", "import subprocess; print('up', flush=True); subprocess.run(['cat'])"},
		{"os.read", "import os; print('up', flush=True); os.read(0, 1)"},
		{"asyncio", "import asyncio\nasync def main():\n    asyncio.get_running_loop().call_later(0.01, print, 'up')\n    await asyncio.sleep(100)\nasyncio.run(main())"},
		{"os.system again and again", "import os; print('up', flush=True)\nwhile True: os.system('sleep 1')"},
		{"a flood", "print('up', flush=True)\nwhile True: print('x' * 10)"},
		{"a bulk flood", "print('up', flush=True)\nwhile True: print('x' * 100000)"},
		{"an error being shown", "class E(Exception):\n    def __str__(self):\n        print('up', flush=True)\n        while True: pass\nraise E"},
	}
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for _, c := range cases {
			w.begin(c.code)
			w.await("up")
			r := w.interruptUntilIdle(c.name)
			want := ipc.OutcomeInterrupted
			if c.name == "an error being shown" {
				want = ipc.OutcomeError
			}
			if r.idle == nil || r.idle.Outcome != want || strings.Contains(r.errText(), "turnstone") {
				t.Errorf("%s: got %+v %.2000q", c.name, r.idle, r.errText())
			}
			if r := w.run("1"); r.out() != "1\n" {
				t.Errorf("%s: the next turn got %q", c.name, r.script())
			}
		}
	})
}

// interruptUntilIdle interrupts as the supervisor does: again after 30, 60, 120 ms
// until the worker acknowledges, since Python may miss a signal on its way into a
// system call.
func (w *worker) interruptUntilIdle(what string) result {
	w.t.Helper()
	return w.insist(1, 1, what, func(e any) bool { return false })
}

// insist interrupts until done says that an event is the effect, or the turn is over.
func (w *worker) insist(seq uint64, level uint8, what string, done func(any) bool) result {
	w.t.Helper()
	w.interrupt(seq, level)
	var r result
	for wait := 30 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		for {
			e, ok := w.nextWithin(wait)
			if !ok {
				break
			}
			r.events = append(r.events, e)
			if done(e) {
				return r
			}
			switch e := e.(type) {
			case ipc.Idle:
				r.idle = &e
				return r
			case ended:
				return r
			case ipc.InterruptAck:
				if e.Turn == w.turn && e.Seq == seq {
					wait = patience
				}
			}
		}
		if wait >= patience {
			w.t.Fatalf("%s: acknowledged, and nothing came: %.1000q", what, r.script())
		}
		w.tell(ipc.Interrupt{Turn: w.turn, Seq: seq, Level: level})
		syscall.Kill(w.cmd.Process.Pid, syscall.SIGINT)
	}
}

func prints(s string) func(any) bool {
	return func(e any) bool {
		t, ok := e.(text)
		return ok && strings.Contains(t.data, s)
	}
}

func TestInterrupt_OfAWaitMakesTheNextInputCode(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for range 20 {
			w.onWait = func(ipc.StdinWait) bool {
				w.interrupt(1, 1)
				return true
			}
			if r := w.run("input('? ')"); r.idle.Outcome != ipc.OutcomeInterrupted || !strings.HasSuffix(r.errText(), "KeyboardInterrupt\n") {
				t.Fatalf("got %q %+v", r.script(), r.idle)
			}
			w.onWait = nil
			w.run("'code'").wants(t, "'code'\n")
		}
	})
}

func TestInterrupt_LevelTwoIsNotSwallowed(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.begin("import time\nwhile True:\n    try:\n        print('up', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt: print('no', flush=True)")
		w.await("up")
		w.insist(1, 1, "level 1", prints("no"))
		if r := w.insist(2, 2, "level 2", prints("nothing")); r.idle.Outcome != ipc.OutcomeInterrupted || !strings.Contains(r.errText(), "TurnAborted") {
			t.Fatalf("got %q %+v", r.script(), r.idle)
		}
	})
}

func TestInterrupt_RetryOfOneThatWasRaisedDoesNothing(t *testing.T) {
	w := start(t, setup{})
	w.begin("import time\ntry:\n    print('up', flush=True)\n    time.sleep(100)\nexcept KeyboardInterrupt: print('once', flush=True)\ntime.sleep(0.1)\nprint('end')")
	w.await("up")
	w.insist(1, 1, "", prints("once"))
	for range 5 {
		w.interrupt(1, 1)
	}
	w.await("end")
	if r := w.finish(); r.idle.Outcome != ipc.OutcomeOK {
		t.Fatalf("got %q %+v", r.script(), r.idle)
	}
}

func TestInterrupt_ThatIsLateIsStale(t *testing.T) {
	w := start(t, setup{})
	w.run("1")
	w.tell(ipc.Interrupt{Turn: 1, Seq: 1, Level: 1})
	w.begin("import time; time.sleep(0.05); 'unharmed'")
	syscall.Kill(w.cmd.Process.Pid, syscall.SIGINT) // its signal, on a slow way
	r := w.finish()
	var acks []ipc.InterruptAck
	for _, e := range r.events {
		if a, ok := e.(ipc.InterruptAck); ok {
			acks = append(acks, a)
		}
	}
	if r.out() != "'unharmed'\n" || len(acks) != 1 || acks[0] != (ipc.InterruptAck{Turn: 1, Seq: 1, Result: ipc.InterruptStale}) {
		t.Fatalf("got %q, %+v", r.script(), acks)
	}
}

func TestInterrupt_SignalOfUserCodeIsPythons(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run("import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('raised')").wants(t, "raised\n")
		w.run("signal.getsignal(signal.SIGINT) is signal.default_int_handler").wants(t, "True\n")
	})
}

func TestSigint_OwnerIsAnnounced(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		owners := func(r result) (list []ipc.SigintOwner) {
			for _, e := range r.events {
				if m, ok := e.(ipc.Sigint); ok {
					list = append(list, m.Owner)
				}
			}
			return list
		}
		if got := owners(w.run("import signal\nn = 0\ndef mine(*a):\n    global n; n += 1\nold = signal.signal(signal.SIGINT, mine)")); len(got) != 1 || got[0] != ipc.SigintUser {
			t.Fatalf("got %v", got)
		}
		w.begin("import time\nprint('up', flush=True)\nwhile not n: time.sleep(0.01)\ntime.sleep(0.1); print('n', n)")
		w.await("up")
		w.interrupt(1, 1)
		if r := w.finish(); r.out() != "n 1\n" || r.idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("the user's handler: got %q %+v", r.script(), r.idle)
		}
		r := w.run("signal.signal(signal.SIGINT, old) is mine")
		if got := owners(r); r.out() != "True\n" || got[len(got)-1] != ipc.SigintOurs {
			t.Fatalf("got %q %v", r.script(), got)
		}
		r = w.run("signal.signal(signal.SIGINT, signal.SIG_IGN); None")
		if got := owners(r); len(got) != 1 || got[0] != ipc.SigintIgnored {
			t.Fatalf("got %v", got)
		}
		w.run("signal.signal(signal.SIGINT, signal.default_int_handler); None")
		w.begin("time.sleep(100)")
		if r := w.interruptUntilIdle(""); r.idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %+v", r.idle)
		}
	})
}

// An interrupt at a random moment around the end of a turn: the turn is interrupted
// or not, and nothing of it reaches the next one.
func TestInterrupt_AtTheTurnsEndNeverLeaks(t *testing.T) {
	cells := []string{"1+1", "x = 1", "print('x' * 5000)", "1/0", "import time; time.sleep(0.0001)", "for i in range(2000): pass"}
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for i := range rounds(150) {
			w.begin(cells[i%len(cells)])
			spin(time.Duration(rand.IntN(500)) * time.Microsecond)
			w.tell(ipc.Interrupt{Turn: w.turn, Seq: 1, Level: 1})
			syscall.Kill(w.cmd.Process.Pid, syscall.SIGINT)
			w.finish()
			if i%3 == 0 {
				syscall.Kill(w.cmd.Process.Pid, syscall.SIGINT)
			}
			if r := w.run("'next'"); r.out() != "'next'\n" || r.idle.Outcome != ipc.OutcomeOK {
				t.Fatalf("round %d: got %q %+v", i, r.script(), r.idle)
			}
		}
	})
}

func TestInterrupt_AtTheTurnsStartIsNotLost(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for i := range rounds(150) {
			w.begin("import time; time.sleep(100)")
			spin(time.Duration(rand.IntN(300)) * time.Microsecond)
			if r := w.interruptUntilIdle(""); r.idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("round %d: got %q %+v", i, r.script(), r.idle)
			}
		}
	})
}

func TestInterrupt_RacingAnAnswerLeavesNoInput(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for i := range rounds(100) {
			w.onWait = func(m ipc.StdinWait) bool {
				w.answer(m, "old")
				spin(time.Duration(rand.IntN(200)) * time.Microsecond)
				w.interrupt(1, 1)
				return true
			}
			w.run("x = input()")
			w.onWait = nil
			if r := w.run("print(input())", "new"); r.out() != "new\n" {
				t.Fatalf("round %d: got %q %+v", i, r.script(), r.idle)
			}
		}
	})
}

// spin passes a time too short for a timer.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// A user's SIGALRM handler that raises may strike in the middle of a frame.
func TestOutput_SurvivesAsynchronousExceptions(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		r := w.run(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
hits = 0
for i in range(` + strconv.Itoa(rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
        print('%d|' % i + 'x' * 6000)
        print('%d-' % i, file=sys.stderr)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm: hits += 1
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: hits += 1
print('hits', hits > 0)`)
		if !strings.Contains(r.out()[max(0, len(r.out())-30):], "hits True\n") { // a last stderr line may follow
			t.Fatalf("got … %.300q %+v", r.out()[max(0, len(r.out())-300):], r.idle)
		}
		for line := range strings.Lines(r.errText()) {
			if strings.Count(r.errText(), "\n"+line) > 1 {
				t.Fatalf("%q came twice", line)
			}
		}
		w.run("signal.setitimer(signal.ITIMER_REAL, 0); 1").wants(t, "(0.0, 0.0)\n1\n"[len("(0.0, 0.0)\n"):])
	})
}

func TestInput_SurvivesAsynchronousExceptions(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.onWait = func(m ipc.StdinWait) bool {
			w.answer(m, "line")
			return true
		}
		r := w.run(`import signal, sys, random
class Alarm(Exception): pass
def ring(*a): raise Alarm
signal.signal(signal.SIGALRM, ring)
bad = []
for i in range(` + strconv.Itoa(rounds(400)) + `):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 6e-4))
        s = input()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if s not in ('line', ''): bad.append(s)
    except Alarm: pass
try: signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm: pass
print('bad', bad)`)
		if !strings.HasSuffix(r.out(), "bad []\n") {
			t.Fatalf("got … %.300q %+v", r.out()[max(0, len(r.out())-300):], r.idle)
		}
		w.run("input()").wants(t, "'line'\n")
	})
}
