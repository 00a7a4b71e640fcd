//go:build linux

package python_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// An interruptCase is code that one interrupt must end at any time.
type interruptCase struct {
	name, code  string
	maxDelay    time.Duration // from the start of the turn to the interrupt
	mayEndFirst bool          // the turn may end before the interrupt
}

// interruptCases lists code in which an interrupt could remain without effect.
var interruptCases = []interruptCase{
	{"a short sleep", "import time; time.sleep(.001)", 2500 * time.Microsecond, true},
	{"a short child", "import subprocess; subprocess.run(['true'])", 4 * time.Millisecond, true},
	{"a sleep", "import time; time.sleep(100)", 3 * time.Millisecond, false},
	{"a loop", "while True: pass", 3 * time.Millisecond, false},
	{"input", "input('? ')", 3 * time.Millisecond, false},
	{"a child", "import subprocess; subprocess.run(['sleep', '100'])", 10 * time.Millisecond, false},
	{"system", "import os; os.system('sleep 100')", 10 * time.Millisecond, false},
	{"system in a loop", "import os\nwhile True: os.system('true')", 10 * time.Millisecond, false},
	{"a process", "import multiprocessing, time\nwhile True:\n    p = multiprocessing.Process(target=int); p.start(); p.join()", 30 * time.Millisecond, false},
	{"imports", "while True: importlib.reload(json.decoder)", 10 * time.Millisecond, false},
	{"a pool of threads", "from concurrent.futures import ThreadPoolExecutor\nwhile True:\n    with ThreadPoolExecutor(2) as e: e.submit(int)", 20 * time.Millisecond, false},
	{"finalizers", "import time\nclass Slow:\n    def __del__(self):\n        for i in range(3000): pass\nwhile True: Slow()", 10 * time.Millisecond, false},
	{"sets of weak references", "import weakref\nclass C: pass\ns = weakref.WeakSet()\nwhile True: s.add(C())", 5 * time.Millisecond, false},
	{"await", "import asyncio; await asyncio.sleep(100)", 10 * time.Millisecond, false},
	{"a busy await", "import asyncio\nwhile True: await asyncio.sleep(0)", 10 * time.Millisecond, false},
	{"an await that computes", "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass", 10 * time.Millisecond, false},
	{"asyncio.run", "import asyncio; asyncio.run(asyncio.sleep(100))", 10 * time.Millisecond, false},
	{"a handler of the turn before", "signal.signal(signal.SIGINT, mine) is mine and time.sleep(100)", 2 * time.Millisecond, false},
}

// followUpTurns lists turns that the interrupt must not affect.
var followUpTurns = []string{
	"'next'",
	"import asyncio; asyncio.run(asyncio.sleep(.005)); 'next'",
	"import asyncio; await asyncio.sleep(.001); 'next'",
	"got = []; old = signal.signal(signal.SIGINT, lambda *a: got.append(a)); time.sleep(.005); _ = signal.signal(signal.SIGINT, old); got or 'next'",
}

// Each interrupt ends its own turn, without a second one, and affects no other turn.
// TURNSTONE_INTERRUPTS is the number for each Python, and TURNSTONE_SEED seeds the random choices.
func TestInterrupt_ReachesOnlyItsTurn(t *testing.T) {
	t.Parallel()
	count, seed := len(interruptCases)*3, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("TURNSTONE_INTERRUPTS")); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("TURNSTONE_SEED"), 10, 64); err == nil {
		seed = n
	}
	eachPython(t, func(t *testing.T, o python.Options) {
		t.Parallel()
		random := rand.New(rand.NewPCG(seed, seed))
		r := openSession(t, o)
		prepare := func() {
			r.RunCode(t, "import asyncio, importlib, json.decoder, signal, time\nclass Mine(Exception): pass\ndef mine(*a): raise Mine\n_ = signal.signal(signal.SIGINT, signal.default_int_handler)")
		}
		prepare()
		for i := range count {
			k := interruptCases[i%len(interruptCases)]
			if k.name == "a handler of the turn before" {
				r.RunCode(t, "_ = signal.signal(signal.SIGINT, mine)")
			}
			turn := r.StartTurn(t, k.code)
			wait.Spin(time.Duration(random.Int64N(int64(k.maxDelay))))
			result, err := r.Interrupt(t.Context(), turn)
			if reply, _ := r.Wait(t.Context(), turn, session.WaitAtMost(sessionkit.Timeout)); err != nil || reply.Outcome == "" {
				t.Fatalf("round %d, %s: the interrupt led to %q, %v, and the turn goes on: %.500q", i, k.name, result, err, reply.Text())
			}
			res := r.WaitTurnEnd(t, turn)
			ended := res.Outcome == "interrupted" || k.mayEndFirst && res.Outcome == "ok" || res.Failure == "Mine"
			if !ended {
				t.Fatalf("round %d, %s: the interrupt led to %q: got %.500q, outcome %q", i, k.name, result, res.Transcript(), res.Outcome)
			}
			if k.name == "a handler of the turn before" {
				prepare()
			}
			next := followUpTurns[random.IntN(len(followUpTurns))]
			// A child or an interrupted task of the user may still print.
			res = r.RunCode(t, next)
			felt := strings.Contains(res.OutputText(timeline.Stderr), "KeyboardInterrupt") && k.name != "a process"
			if res.OutputText(timeline.Stdout) != "'next'\n" || res.Outcome != "ok" || felt {
				t.Fatalf("round %d, %s: the next turn, %s, got %.500q, outcome %q %+v", i, k.name, next, res.Transcript(), res.Outcome, res.WorkerExit)
			}
		}
		wantCleanTurn(t, r)
	})
}

// User code may block the signal of an interrupt. The signal arrives by the end of its turn, never in the
// next turn, which counts only its own signals.
func TestInterrupt_BlockedSignal(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		t.Parallel()
		r := openSession(t, o)
		r.RunCode(t, "import os, signal").WantTranscript(t, "")
		for range 5 {
			turn := r.StartTurn(t, "_ = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); input('? ')")
			r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
			wantInterrupt(t, r, turn, session.InterruptIdle)
			r.WaitTurnEnd(t, turn)
			res := r.RunCode(t, `got = signal.sigpending()
old = signal.signal(signal.SIGINT, signal.SIG_DFL)
_ = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
_ = signal.signal(signal.SIGINT, old)
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt: print('mine', got)`)
			if got := res.OutputText(); got != "mine set()\n" || res.Outcome != "ok" {
				t.Fatalf("got %q, outcome %q %+v", res.Transcript(), res.Outcome, res.WorkerExit)
			}
		}
	})
}
