//go:build linux || windows

package python_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// interrupt fails the test unless the interrupt leads to want.
func (r *repl) interrupt(t *testing.T, turn *supervisor.Turn, want supervisor.InterruptResult) {
	t.Helper()
	got, err := r.Interrupt(t.Context(), turn.ID())
	if got != want || err != nil {
		t.Errorf("the interrupt led to %q, %v; want %q", got, err, want)
	}
}

// spin passes a time that is too short for a timer.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

func TestInterrupt_EndsTheTurnAndNotTheWorker(t *testing.T) {
	cases := []struct{ name, code, outcome, last string }{
		{"a loop", "print('up', flush=True)\nwhile True: pass", "interrupted", "KeyboardInterrupt\n"},
		{"sleep", "import time; print('up', flush=True); time.sleep(100)", "interrupted", "KeyboardInterrupt\n"},
		{"a lock", "import threading; l = threading.Lock(); l.acquire(); print('up', flush=True); l.acquire()", "interrupted", "KeyboardInterrupt\n"},
		{"a child", childThatSleeps, "interrupted", "KeyboardInterrupt\n"},
		{"a reading child", "import subprocess; print('up', flush=True); subprocess.run(['cat'])", "interrupted", "KeyboardInterrupt\n"},
		{"a read", "import os; print('up', flush=True); os.read(0, 1)", "interrupted", "KeyboardInterrupt\n"},
		{"input", "print('up', flush=True); input()", "interrupted", "KeyboardInterrupt\n"},
		{"system in a loop", "import os; print('up', flush=True)\nwhile True: os.system('" + shortCommand + "')", "interrupted", "KeyboardInterrupt\n"},
		{"a flood", "print('up', flush=True)\nwhile True: print('x' * 10)", "interrupted", "KeyboardInterrupt\n"},
		{"a flood of bulk", "print('up', flush=True)\nwhile True: print('x' * 100000)", "interrupted", "KeyboardInterrupt\n"},
		{"asyncio", `import asyncio
async def main():
    asyncio.get_running_loop().call_later(0.01, print, 'up')
    try: await asyncio.sleep(100)
    except asyncio.CancelledError:
        print('cancelled')
        raise
asyncio.run(main())`, "interrupted", "KeyboardInterrupt\n"},
		{"await", "import asyncio\nprint('up', flush=True)\nawait asyncio.sleep(100)", "interrupted", "KeyboardInterrupt\n"},
	}
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if why := unbreakable[c.name]; why != "" {
					t.Skip(why)
				}
				turn := r.submit(t, c.code)
				r.until(t, "up", prints("up"))
				r.interrupt(t, turn, supervisor.InterruptIdle)
				res := r.ended(t, turn)
				if res.outcome != c.outcome || !strings.HasSuffix(res.text(timeline.Stderr), c.last) || strings.Contains(res.text(timeline.Stderr), "turnstone") {
					t.Errorf("got … %.1000q, outcome %q", res.script()[max(0, len(res.script())-1000):], res.outcome)
				}
				if c.name == "asyncio" && !strings.Contains(res.text(), "cancelled\n") {
					t.Errorf("the coroutine was not cancelled: %.1000q", res.script())
				}
				if res.outcome == "" {
					r.restart(t)
					return
				}
				r.clean(t)
			})
		}
	})
}

// An interrupt around the end of a turn reaches that turn or nothing.
func TestInterrupt_AtTheTurnsEndNeverLeaks(t *testing.T) {
	cells := []string{"1+1", "x = 1", "print('x' * 5000)", "1/0", "import time; time.sleep(0.0001)", "for i in range(2000): pass"}
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		pid := r.Info().PID
		seen := make(map[string]int)
		for i := range rounds(180) {
			turn := r.submit(t, cells[i%len(cells)])
			spin(time.Duration(rand.IntN(700)) * time.Microsecond)
			result, err := r.Interrupt(t.Context(), turn.ID())
			if err != nil || result == supervisor.InterruptPending || result == supervisor.InterruptWaiting {
				t.Fatalf("round %d: the interrupt led to %q, %v", i, result, err)
			}
			res := r.finish(t, turn)
			if res.outcome == "" || res.outcome == "ended" {
				t.Fatalf("round %d, %q: got %q, outcome %q", i, cells[i%len(cells)], res.script(), res.outcome)
			}
			seen[res.outcome]++
			if i%3 == 0 {
				if err := strayInterrupt(pid); err != nil { // while idle
					t.Fatal(err)
				}
			}
			if res := r.turn(t, "'next'"); res.script() != "'next'\n" || res.outcome != "ok" {
				t.Fatalf("round %d, %q: the next turn got %q, outcome %q", i, cells[i%len(cells)], res.script(), res.outcome)
			}
		}
		if seen["ok"] == 0 || seen["interrupted"] == 0 {
			t.Errorf("the race was not one: %v", seen)
		}
	})
}

func TestInterrupt_AtTheTurnsStartIsNotLost(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		for i := range rounds(90) {
			turn := r.submit(t, "import time; time.sleep(100)")
			spin(time.Duration(rand.IntN(300)) * time.Microsecond)
			if result, err := r.Interrupt(t.Context(), turn.ID()); result != supervisor.InterruptIdle {
				t.Fatalf("round %d: the interrupt led to %q, %v", i, result, err)
			}
			if res := r.finish(t, turn); res.outcome != "interrupted" {
				t.Fatalf("round %d: got %q, outcome %q", i, res.script(), res.outcome)
			}
		}
		r.clean(t)
	})
}

// The C library ignores SIGINT while system runs, so the child must get it.
func TestInterrupt_AtTheStartOfAChildIsNotLost(t *testing.T) {
	children := []struct{ name, code string }{
		{"system", "import os; print('up', flush=True); os.system('" + longCommand + "')"},
		{"run", "import subprocess; print('up', flush=True); subprocess.run(" + sleepingChild + ")"},
		// Kept, since Python ignores an exception that strikes in its __del__.
		{"popen", "import os; kept = globals().get('kept', []); print('up', flush=True); kept.append(os.popen('" + longCommand + "')); kept[-1].read()"},
	}
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		for _, c := range children {
			t.Run(c.name, func(t *testing.T) {
				if why := unbreakable[c.name]; why != "" {
					t.Skip(why)
				}
				for i := range rounds(30) {
					turn := r.submit(t, c.code)
					r.until(t, "up", prints("up"))
					spin(time.Duration(rand.IntN(1000)) * time.Microsecond)
					result, err := r.Interrupt(t.Context(), turn.ID())
					if c.name == "system" && result == supervisor.InterruptPending {
						// The C library and the shell each ignore SIGINT for a moment before their
						// child is there: one that falls into it is lost, as at any terminal.
						result, err = r.Interrupt(t.Context(), turn.ID())
					}
					res := r.ended(t, turn)
					if result != supervisor.InterruptIdle || res.outcome != "interrupted" {
						t.Fatalf("round %d: the interrupt led to %q, %v: got %q, outcome %q", i, result, err, res.script(), res.outcome)
					}
				}
				r.clean(t)
			})
		}
	})
}

func TestInterrupt_RacingAnAnswerLeavesNoInput(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		for i := range rounds(90) {
			turn := r.submit(t, "x = input()")
			w := r.until(t, "a wait", asks)
			var both sync.WaitGroup
			both.Go(func() {
				spin(time.Duration(rand.IntN(200)) * time.Microsecond)
				err := turn.Answer(t.Context(), w.Seq, supervisor.Input{Data: []byte("old\nolder\n")})
				if err != nil && !errors.Is(err, supervisor.ErrStale) {
					t.Errorf("round %d: answer: %v", i, err)
				}
			})
			both.Go(func() {
				spin(time.Duration(rand.IntN(200)) * time.Microsecond)
				if result, err := r.Interrupt(t.Context(), turn.ID()); err != nil || result == supervisor.InterruptPending || result == supervisor.InterruptWaiting {
					t.Errorf("round %d: the interrupt led to %q, %v", i, result, err)
				}
			})
			both.Wait()
			if res := r.ended(t, turn); res.outcome != "ok" && res.outcome != "interrupted" {
				t.Fatalf("round %d: got %q, outcome %q", i, res.script(), res.outcome)
			}
			if res := r.turn(t, "print(input())", "new"); res.text() != "new\n" {
				t.Fatalf("round %d: the next turn got %q", i, res.script())
			}
		}
	})
}

func TestInterrupt_HandlerOfTheUserIsCalledOnce(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		r.turn(t, "import signal, time\nn = 0\ndef mine(*a):\n    global n; n += 1\nold = signal.signal(signal.SIGINT, mine)").wants(t, "")
		for want := 1; want <= 2; want++ { // in the turn after the next as well
			turn := r.submit(t, "was = n\nprint('up', flush=True)\nwhile n == was: time.sleep(0.01)\ntime.sleep(0.3); print('called', n)")
			r.until(t, "up", prints("up"))
			r.interrupt(t, turn, supervisor.InterruptIdle)
			res := r.finish(t, turn)
			if got, want := res.text(), "called "+string(rune('0'+want))+"\n"; !strings.HasSuffix(got, want) || res.outcome != "ok" {
				t.Fatalf("got %q, outcome %q; want %q", res.script(), res.outcome, want)
			}
		}
		r.turn(t, "signal.signal(signal.SIGINT, old) is mine").wants(t, "True\n")
		turn := r.submit(t, "print('up', flush=True); time.sleep(100)")
		r.until(t, "up", prints("up"))
		r.interrupt(t, turn, supervisor.InterruptIdle)
		if res := r.finish(t, turn); res.outcome != "interrupted" {
			t.Errorf("got %q, outcome %q", res.script(), res.outcome)
		}
	})
}

func TestInterrupt_SecondOneCannotBeSwallowed(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		turn := r.submit(t, "import time\nwhile True:\n    try:\n        print('up', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt: print('no', flush=True)")
		r.until(t, "up", prints("up"))
		r.interrupt(t, turn, supervisor.InterruptPending)
		r.interrupt(t, turn, supervisor.InterruptIdle)
		res := r.finish(t, turn)
		if res.outcome != "interrupted" || strings.Count(res.text(), "no\n") != 1 {
			t.Errorf("got %q, outcome %q", res.script(), res.outcome)
		}
		r.clean(t)
	})
}

func TestInterrupt_SwallowedOneLetsAThreadAskAgain(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		turn := r.submit(t, `import threading
got = []
done = threading.Event() # an interrupted join takes a thread for dead before Python 3.13
def ask(): got.append(input('t? ')); done.set()
threading.Thread(target=ask).start()
try: `+waitForDone+`
except KeyboardInterrupt: print('swallowed')
`+waitForDone+`; print(got)`)
		old := r.until(t, "a wait", asks)
		r.interrupt(t, turn, supervisor.InterruptWaiting)
		if err := turn.Answer(t.Context(), old.Seq, supervisor.Input{Data: []byte("late\n")}); !errors.Is(err, supervisor.ErrStale) {
			t.Errorf("the old wait took an answer: %v", err)
		}
		res := r.finish(t, turn, "in time")
		if got := res.text(); !strings.HasSuffix(got, "['in time']\n") || res.outcome != "ok" {
			t.Errorf("got %q, outcome %q", res.script(), res.outcome)
		}
		if res.outcome != "" {
			r.clean(t)
		}
	})
}

func TestInterrupt_ThreadThatWaitedGoesOnInTheNextTurn(t *testing.T) {
	eachPython(t, func(t *testing.T, o python.Options) {
		r := open(t, o)
		turn := r.submit(t, "import threading\ngot = []; done = threading.Event()\ndef ask(): got.append(input('t? ')); done.set()\nthreading.Thread(target=ask).start(); "+waitForDone)
		r.until(t, "a wait", asks)
		result, err := r.Interrupt(t.Context(), turn.ID())
		// The thread may ask once more before the main one has ended the turn.
		if err != nil || result != supervisor.InterruptIdle && result != supervisor.InterruptWaiting {
			t.Errorf("the interrupt led to %q, %v", result, err)
		}
		if res := r.ended(t, turn); res.outcome != "interrupted" {
			t.Fatalf("got %q, outcome %q", res.script(), res.outcome)
		}
		res := r.turn(t, waitForDone+"; print(got)", "late")
		if !strings.HasSuffix(res.text(), "['late']\n") || res.waits != 1 {
			t.Errorf("got %q, outcome %q", res.script(), res.outcome)
		}
	})
}

func TestInterrupt_OfATurnThatIsOverIsStale(t *testing.T) {
	r := open(t, python.Options{})
	turn := r.submit(t, "1")
	r.finish(t, turn).wants(t, "1\n")
	r.interrupt(t, turn, supervisor.InterruptStale)
	r.clean(t)
}
