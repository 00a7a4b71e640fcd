//go:build linux

package python_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestEnd(t *testing.T) {
	t.Parallel()

	t.Run("reports how it ended; the next input starts a new worker", func(t *testing.T) {
		t.Parallel()
		ends := []struct {
			name, code, reason, out string
			clean                   bool
		}{
			{"sys.exit with a status", "import sys; print('last'); sys.exit(3)", "exit status 3", "last\n", true},
			{"sys.exit with a message", "import sys; sys.exit('that is it')", "exit status 1", "that is it\n", true},
			{"sys.exit", "import sys; sys.exit()", "exit status 0", "", true},
			{"quit", "quit()", "exit status 0", "", true},
			{"os._exit", "import os; print('last'); os._exit(4)", "exit status 4", "last\n", false},
			{"a signal", "import os, signal; print('last'); os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL", "last\n", false},
			{"abort", "import os; os.abort()", "killed by SIGABRT", "Fatal Python error: Aborted", false},
			{"atexit", "import atexit, sys; atexit.register(print, 'bye'); sys.exit()", "exit status 0", "bye\n", true},
			{"a segfault", "import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()", "killed by SIGSEGV", "Segmentation fault", false},
			{"an exit in a thread that waits", "import os, threading\nthreading.Thread(target=os._exit, args=(5,)).start()\nthreading.Event().wait()", "exit status 5", "", false},
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for i, c := range ends {
				t.Run(c.name, func(t *testing.T) {
					r.RunCode(t, "old = 1").WantTranscript(t, "")
					res := r.RunCodeThatMayExit(t, c.code)
					if res.Outcome != "ended" || res.WorkerExit == nil || res.WorkerExit.Reason != c.reason || res.WorkerExit.Clean != c.clean {
						t.Fatalf("got %q, outcome %q, end %+v; want %q, clean %v", res.Transcript(), res.Outcome, res.WorkerExit, c.reason, c.clean)
					}
					if !strings.Contains(res.OutputText(), c.out) {
						t.Errorf("got %q, want %q in it", res.Transcript(), c.out)
					}
					if c.name == "a segfault" && !strings.Contains(res.OutputText(), "in crash") {
						t.Errorf("got %q, want the stack in it", res.Transcript())
					}
					if lastLine := c.code[strings.LastIndexByte(c.code, '\n')+1:]; !c.clean && res.WorkerExit.LastLine != lastLine {
						t.Errorf("the last line is %q, want %q", res.WorkerExit.LastLine, lastLine)
					}
					if got := r.RunCode(t, "'old' in globals()"); got.OutputText() != "False\n" {
						t.Errorf("the next turn got %q, outcome %q", got.Transcript(), got.Outcome)
					}
					if got, want := sessionkit.SessionInfo(r).Generation, uint64(i+2); got != want {
						t.Errorf("generation %d, want %d", got, want)
					}
				})
			}
		})
	})

	t.Run("reports a kill from outside", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, "import time; print('up', flush=True)\ntime.sleep(100)")
			r.WaitEvent(t, "up", sessionkit.IsText("up"))
			if err := syscall.Kill(sessionkit.SessionInfo(r).PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			res := r.WaitTurnEnd(t, turn)
			if res.Outcome != "ended" || res.WorkerExit == nil || res.WorkerExit.Reason != "killed by SIGKILL" || res.WorkerExit.Clean || res.WorkerExit.LastLine != "time.sleep(100)" {
				t.Errorf("got %q, outcome %q, end %+v", res.Transcript(), res.Outcome, res.WorkerExit)
			}
			r.RunCode(t, "1").WantTranscript(t, "1\n")

			if err := syscall.Kill(sessionkit.SessionInfo(r).PID, syscall.SIGKILL); err != nil { // while idle
				t.Fatal(err)
			}
			end := r.WaitEvent(t, "the end", func(e timeline.Event) bool {
				_, ok := e.Body.(timeline.WorkerExited)
				return ok
			})
			if got := end.Body.(timeline.WorkerExited); got.Reason != "killed by SIGKILL" || got.Clean || !end.BetweenTurns {
				t.Errorf("got %+v", end)
			}
			r.RunCode(t, "2").WantTranscript(t, "2\n")
		})
	})

	// The exit waits for non-daemon threads, as in any Python.
	t.Run("an exit waits for threads", func(t *testing.T) {
		t.Parallel()
		r := openSession(t, python.Options{})
		res := r.RunCodeThatMayExit(t, "import sys, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nsys.exit(7)")
		if res.OutputText() != "thread\n" || res.WorkerExit == nil || res.WorkerExit.Reason != "exit status 7" {
			t.Errorf("got %q, end %+v", res.Transcript(), res.WorkerExit)
		}
	})

	t.Run("a MemoryError does not end the worker", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			res := r.RunCode(t, `import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, resource.RLIM_INFINITY))
hog = []
while True: hog.append(bytearray(1 << 20))`)
			if res.Outcome != "error" || res.Failure != "MemoryError" || !strings.Contains(res.OutputText(timeline.Stderr), "MemoryError") {
				t.Fatalf("got %.1000q, outcome %q %s", res.Transcript(), res.Outcome, res.Failure)
			}
			r.RunCode(t, "len(hog) > 100").WantTranscript(t, "True\n")
			r.RunCode(t, "del hog").WantTranscript(t, "")
			wantCleanTurn(t, r)
		})
	})
}

func TestOutput_LateThread(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		r := openSession(t, o)
		wait, goOn := newGate(t)
		r.RunCode(t, "import threading\ndef late():\n    "+wait+"\n    print('late')\nthreading.Thread(target=late, daemon=True).start()").WantTranscript(t, "")
		goOn()
		e := r.WaitEvent(t, "the thread's text", sessionkit.IsText("late\n"))
		if !e.BetweenTurns || e.Turn != 1 {
			t.Errorf("got %+v, want it between turns, after turn 1", e)
		}
		wantCleanTurn(t, r)
	})
}
