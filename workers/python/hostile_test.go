//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestHostileCode(t *testing.T) {
	t.Parallel()

	// TestHostileCode guards the way back to idle: it
	// must not depend on anything that a cell can replace, remove or block.
	t.Run("the turn ends whatever code does to its streams", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"no stdout":              "import sys; del sys.stdout",
			"no stderr":              "import sys; del sys.stderr",
			"no modules":             "import sys; sys.modules.clear()",
			"a flush that exits":     "import sys\nclass S:\n    def write(self, s): pass\n    def flush(self): sys.exit(1)\nsys.stdout = S()",
			"streams that interrupt": "import sys\nclass S:\n    def write(self, s): raise KeyboardInterrupt\n    flush = write\nsys.stdout = sys.stderr = S()\n1/0",
			"an exit without stderr": "import sys; sys.stderr = None; 1/0",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{python: "python3"})
				w.RunCode(code) // the harness fails when idle does not come
				if name == "no stdout" {
					w.RunCode("print(1)").WantOutput(t, "1\n")
				}
			})
		}
	})

	t.Run("an interrupt ends a blocked flush at the end of a turn", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: "python3"})
		w.StartTurn("import os, sys\nr, w = os.pipe(); sys.stdout = os.fdopen(w, 'w', buffering=1 << 20)\n_ = sys.stdout.write('x' * 200000); print('up', file=sys.stderr, flush=True)")
		w.WaitOutput("up")
		// The first interrupts may hit the code before the flush, or while their error is shown.
		const most = 60
		for seq := uint64(1); seq <= most; seq++ {
			w.sendInterrupt(seq, 1)
			for {
				e, ok := w.NextEventWithin(time.Second)
				if !ok {
					break
				}
				if idle, over := e.(ipc.Idle); over {
					if idle.Outcome != ipc.OutcomeInterrupted {
						t.Errorf("got %q", idle.Outcome)
					}
					return
				}
			}
		}
		t.Errorf("%d interrupts do not end it", most)
	})

	// The mark of idle and the marks of a thread's output must appear in the terminal in order.
	t.Run("the turn ends while a thread prints", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: "python3"})
		w.RunCode("import threading\ndef flood():\n    for _ in range(60): print('x' * 5000)")
		for range 60 {
			w.RunCode("threading.Thread(target=flood).start()")
		}
	})

	t.Run("an interrupt ends a read although SIGINT is blocked", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: "python3"})
		w.RunCode("import signal; old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])")
		w.OnInputRequest = func(ipc.StdinWait) bool { return true } // it is not answered
		w.StartTurn("input('? ')")
		w.WaitOutput("? ")
		w.sendInterrupt(1, 1)
		if r := w.FinishTurn(); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Errorf("got %q", r.Idle.Outcome)
		}
	})

	t.Run("shows invalid image data as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: "python3"})
		r := w.RunCode("class P:\n    def _repr_png_(self): return b'notpng'\n    def __repr__(self): return 'a P'\nP()")
		if got := r.Transcript(); !strings.Contains(got, "a P") {
			t.Errorf("got %q", got)
		}
	})
}
