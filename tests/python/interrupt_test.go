//go:build linux || windows

package python_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// wantInterrupt fails the test unless the interrupt leads to want.
func wantInterrupt(t *testing.T, r *sessionkit.TestSession, turn uint64, want session.InterruptResult) {
	t.Helper()
	if got := r.InterruptTurn(t, turn); got != want {
		t.Errorf("the interrupt led to %q, want %q", got, want)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the turn, keeps the worker", func(t *testing.T) {
		t.Parallel()
		cases := []struct{ name, code, outcome, last string }{
			{"a loop", "print('up', flush=True)\nwhile True: pass", "interrupted", "KeyboardInterrupt\n"},
			{"sleep", "import time; print('up', flush=True); time.sleep(100)", "interrupted", "KeyboardInterrupt\n"},
			{"a lock", "import threading; l = threading.Lock(); l.acquire(); print('up', flush=True); l.acquire()", "interrupted", "KeyboardInterrupt\n"},
			{"a child", childThatSleeps, "interrupted", "KeyboardInterrupt\n"},
			// The child reports its start, since an interrupt while Python starts it ends run() and may miss the child.
			{"a reading child", "import subprocess; subprocess.run(['sh', '-c', 'echo up; exec cat'])", "interrupted", "KeyboardInterrupt\n"},
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
			r := openSession(t, o)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					if why := uninterruptible[c.name]; why != "" {
						t.Skip(why)
					}
					turn := r.StartTurn(t, c.code)
					r.WaitEvent(t, "up", sessionkit.IsText("up"))
					wantInterrupt(t, r, turn, session.InterruptIdle)
					res := r.WaitTurnEnd(t, turn)
					if res.Outcome != c.outcome || !strings.HasSuffix(res.OutputText(timeline.Stderr), c.last) || strings.Contains(res.OutputText(timeline.Stderr), "turnstone") {
						t.Errorf("got … %.1000q, outcome %q", res.Transcript()[max(0, len(res.Transcript())-1000):], res.Outcome)
					}
					if c.name == "asyncio" && !strings.Contains(res.OutputText(), "cancelled\n") {
						t.Errorf("the coroutine was not cancelled: %.1000q", res.Transcript())
					}
					if res.Outcome == "" {
						r.RestartWorker(t)
						return
					}
					wantCleanTurn(t, r)
				})
			}
		})
	})

	t.Run("calls a handler of the user once", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			r.RunCode(t, "import signal, time\nn = 0\ndef mine(*a):\n    global n; n += 1\nold = signal.signal(signal.SIGINT, mine)").WantTranscript(t, "")
			for want := 1; want <= 2; want++ { // also two turns later
				turn := r.StartTurn(t, "was = n\nprint('up', flush=True)\nwhile n == was: time.sleep(0.01)\ntime.sleep(0.3); print('called', n)")
				r.WaitEvent(t, "up", sessionkit.IsText("up"))
				wantInterrupt(t, r, turn, session.InterruptIdle)
				res := r.FinishTurn(t, turn)
				if got, want := res.OutputText(), "called "+string(rune('0'+want))+"\n"; !strings.HasSuffix(got, want) || res.Outcome != "ok" {
					t.Fatalf("got %q, outcome %q; want %q", res.Transcript(), res.Outcome, want)
				}
			}
			r.RunCode(t, "signal.signal(signal.SIGINT, old) is mine").WantTranscript(t, "True\n")
			turn := r.StartTurn(t, "print('up', flush=True); time.sleep(100)")
			r.WaitEvent(t, "up", sessionkit.IsText("up"))
			wantInterrupt(t, r, turn, session.InterruptIdle)
			if res := r.FinishTurn(t, turn); res.Outcome != "interrupted" {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
		})
	})

	t.Run("code cannot swallow the second interrupt", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, "import time\nwhile True:\n    try:\n        print('up', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt: print('no', flush=True)")
			r.WaitEvent(t, "up", sessionkit.IsText("up"))
			if got, err := r.Interrupt(t.Context(), turn); got != session.InterruptPending || err != nil {
				t.Errorf("the first interrupt led to %q, %v", got, err)
			}
			r.WaitEvent(t, "no", sessionkit.IsText("no\n")) // a busy machine may take longer than the interrupt waits
			wantInterrupt(t, r, turn, session.InterruptIdle)
			res := r.FinishTurn(t, turn)
			if res.Outcome != "interrupted" || strings.Contains(res.OutputText(), "no\n") {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
			wantCleanTurn(t, r)
		})
	})

	t.Run("a thread asks again after a swallowed interrupt", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, `import threading
got = []
trying, done = threading.Event(), threading.Event() # an interrupted join takes a thread for dead before Python 3.13
def ask(): trying.wait(); got.append(input('t? ')); done.set()
threading.Thread(target=ask).start()
try:
    trying.set()
    `+waitForDone+`
except KeyboardInterrupt: print('swallowed')
`+waitForDone+`; print(got)`)
			old := r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
			wantInterrupt(t, r, turn, session.InterruptWaiting)
			if _, err := r.Answer(t.Context(), old.Seq, session.Input{Data: []byte("late\n")}); !errors.Is(err, session.ErrStale) {
				t.Errorf("the old wait took an answer: %v", err)
			}
			res := r.FinishTurn(t, turn, "in time")
			if got := res.OutputText(); !strings.HasSuffix(got, "['in time']\n") || res.Outcome != "ok" {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
			if res.Outcome != "" {
				wantCleanTurn(t, r)
			}
		})
	})

	t.Run("a waiting thread continues in the next turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, "import threading\ngot = []; done = threading.Event()\ndef ask(): got.append(input('t? ')); done.set()\nthreading.Thread(target=ask).start(); "+waitForDone)
			r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
			result, err := r.Interrupt(t.Context(), turn)
			// The thread may ask once more before the main thread has ended the turn.
			if err != nil || result != session.InterruptIdle && result != session.InterruptWaiting {
				t.Errorf("the interrupt led to %q, %v", result, err)
			}
			if res := r.WaitTurnEnd(t, turn); res.Outcome != "interrupted" {
				t.Fatalf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
			res := r.RunCode(t, waitForDone+"; print(got)", "late")
			if !strings.HasSuffix(res.OutputText(), "['late']\n") || res.InputRequests != 1 {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
		})
	})

	t.Run("of a finished turn is stale", func(t *testing.T) {
		t.Parallel()
		r := openSession(t, python.Options{})
		turn := r.StartTurn(t, "1")
		r.FinishTurn(t, turn).WantTranscript(t, "1\n")
		wantInterrupt(t, r, turn, session.InterruptStale)
		wantCleanTurn(t, r)
	})
}

func TestInterruptRace(t *testing.T) {
	t.Parallel()

	// An interrupt around the end of a turn interrupts that turn or has no effect.
	t.Run("at the end of a turn it never reaches the next one", func(t *testing.T) {
		t.Parallel()
		cells := []string{"1+1", "x = 1", "print('x' * 5000)", "1/0", "import time; time.sleep(0.0001)", "for i in range(2000): pass"}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			pid := sessionkit.SessionInfo(r).PID
			seen := make(map[string]int)
			for i := range testmain.Rounds(180) {
				turn := r.StartTurn(t, cells[i%len(cells)])
				wait.Spin(time.Duration(rand.IntN(700)) * time.Microsecond)
				if result := r.InterruptTurn(t, turn); result == session.InterruptPending || result == session.InterruptWaiting {
					t.Fatalf("round %d: the interrupt led to %q", i, result)
				}
				res := r.FinishTurn(t, turn)
				if res.Outcome == "" || res.Outcome == "ended" {
					t.Fatalf("round %d, %q: got %q, outcome %q", i, cells[i%len(cells)], res.Transcript(), res.Outcome)
				}
				seen[res.Outcome]++
				if i%3 == 0 {
					if err := sendStrayInterrupt(pid); err != nil { // while idle
						t.Fatal(err)
					}
				}
				if res := r.RunCode(t, "'next'"); res.Transcript() != "'next'\n" || res.Outcome != "ok" {
					t.Fatalf("round %d, %q: the next turn got %q, outcome %q", i, cells[i%len(cells)], res.Transcript(), res.Outcome)
				}
			}
			if seen["ok"] == 0 || seen["interrupted"] == 0 {
				t.Logf("this machine raced in one direction only: %v", seen)
			}
		})
	})

	t.Run("at the start of a turn it is not lost", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for i := range testmain.Rounds(90) {
				turn := r.StartTurn(t, "import time; time.sleep(100)")
				wait.Spin(time.Duration(rand.IntN(300)) * time.Microsecond)
				wantInterrupt(t, r, turn, session.InterruptIdle)
				if res := r.FinishTurn(t, turn); res.Outcome != "interrupted" {
					t.Fatalf("round %d: got %q, outcome %q", i, res.Transcript(), res.Outcome)
				}
			}
			wantCleanTurn(t, r)
		})
	})

	// The C library ignores SIGINT while system runs, so the child must get it.
	t.Run("at the start of a child it is not lost", func(t *testing.T) {
		t.Parallel()
		children := []struct{ name, code string }{
			{"system", "import os; print('up', flush=True); os.system('" + longCommand + "')"},
			{"run", "import subprocess; print('up', flush=True); subprocess.run(" + sleepingChild + ")"},
			// Stored, since Python ignores an exception that is raised in its __del__.
			{"popen", "import os; pipes = globals().get('pipes', []); print('up', flush=True); pipes.append(os.popen('" + longCommand + "')); pipes[-1].read()"},
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, c := range children {
				t.Run(c.name, func(t *testing.T) {
					if why := uninterruptible[c.name]; why != "" {
						t.Skip(why)
					}
					for i := range testmain.Rounds(30) {
						turn := r.StartTurn(t, c.code)
						r.WaitEvent(t, "up", sessionkit.IsText("up"))
						wait.Spin(time.Duration(rand.IntN(1000)) * time.Microsecond)
						result, err := r.Interrupt(t.Context(), turn)
						late := result == session.InterruptPending // or the machine is busy; the end is awaited below
						if c.name == "system" && late {
							// The C library and the shell each ignore SIGINT for a moment before their
							// child exists. An interrupt in that moment is lost, as at any terminal.
							result, err = r.Interrupt(t.Context(), turn)
							late = result == session.InterruptPending || result == session.InterruptStale
						}
						res := r.WaitTurnEnd(t, turn)
						if err != nil || result != session.InterruptIdle && !late || res.Outcome != "interrupted" {
							t.Fatalf("round %d: the interrupt led to %q, %v: got %q, outcome %q", i, result, err, res.Transcript(), res.Outcome)
						}
					}
					wantCleanTurn(t, r)
				})
			}
		})
	})

	t.Run("racing an answer leaves no input behind", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for i := range testmain.Rounds(90) {
				turn := r.StartTurn(t, "x = input()")
				w := r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
				var both sync.WaitGroup
				both.Go(func() {
					wait.Spin(time.Duration(rand.IntN(200)) * time.Microsecond)
					_, err := r.Answer(t.Context(), w.Seq, session.Input{Data: []byte("old\nolder\n")})
					if err != nil && !errors.Is(err, session.ErrStale) {
						t.Errorf("round %d: answer: %v", i, err)
					}
				})
				both.Go(func() {
					wait.Spin(time.Duration(rand.IntN(200)) * time.Microsecond)
					if result := r.InterruptTurn(t, turn); result == session.InterruptPending || result == session.InterruptWaiting {
						t.Errorf("round %d: the interrupt led to %q", i, result)
					}
				})
				both.Wait()
				if res := r.WaitTurnEnd(t, turn); res.Outcome != "ok" && res.Outcome != "interrupted" {
					t.Fatalf("round %d: got %q, outcome %q", i, res.Transcript(), res.Outcome)
				}
				if res := r.RunCode(t, "print(input())", "new"); res.OutputText() != "new\n" {
					t.Fatalf("round %d: the next turn got %q", i, res.Transcript())
				}
			}
		})
	})
}
