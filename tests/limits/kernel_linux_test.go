package limits

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestFileLimit(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
		s := openPython(t, box, workers.Limits{Files: 80})
		s.RunCode(t, "import resource, subprocess, sys; resource.getrlimit(resource.RLIMIT_NOFILE)").WantTranscript(t, "(80, 80)\n")
		s.RunCode(t, "print(subprocess.check_output('ulimit -n', shell=True).decode(), end='')").WantTranscript(t, "80\n")
		if r := s.RunCode(t, "kept = [open('/dev/null') for _ in range(100)]"); r.Failure != "OSError" || !strings.Contains(r.Transcript(), "Too many open files") {
			t.Errorf("got %q %s", r.Outcome, r.Failure)
		}
		s.RunCode(t, "1 + 1").WantTranscript(t, "2\n")
	})
}

func TestCPULimit(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
		s := openPython(t, box, workers.Limits{CPUs: 1})
		s.RunCode(t, "import os, subprocess; len(os.sched_getaffinity(0))").WantTranscript(t, "1\n")
		s.RunCode(t, "print(subprocess.check_output('nproc').decode(), end='')").WantTranscript(t, "1\n")
	})
	t.Run("more processors than the machine has", func(t *testing.T) {
		s := openPython(t, nil, workers.Limits{CPUs: 4000})
		s.RunCode(t, "1 + 1").WantTranscript(t, "2\n")
	})
}

const forkCode = `import os, signal
children = []
def fork():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    children.append(pid)
def end_last():
    os.kill(children[-1], 9)
    os.waitpid(children.pop(), 0)
def end():
    while children: end_last()`

func TestProcessLimit(t *testing.T) {
	t.Run("refuses to start more", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			requireForkLimit(t, box)
			s := openPython(t, box, workers.Limits{Processes: 30})
			s.RunCode(t, forkCode).WantTranscript(t, "")
			for range 2 {
				if r := s.RunCode(t, "while True: fork()"); r.Failure != "BlockingIOError" {
					t.Errorf("got %q %s %q", r.Outcome, r.Failure, r.Transcript())
				}
				if box != nil { // in a sandbox the kernel counts; the count of the supervisor may be late
					s.WantOutput(t, "20 < len(children) <= 30 or len(children)", "True\n")
				}
				s.WantOutput(t, "end()", "")
			}
		})
	})

	t.Run("keeps the session usable after a fork bomb", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			s := openPython(t, box, workers.Limits{Processes: 40, Turn: sessionkit.Timeout})
			bomb := "import os, time\nend = time.time() + 0.7\nme = os.getpid()\n" +
				"while time.time() < end:\n  try: os.fork()\n  except OSError: time.sleep(0.01)\n" +
				"if os.getpid() != me: os._exit(0)"
			if r := s.RunCode(t, bomb); r.Outcome != "ok" {
				t.Errorf("got %q %q", r.Outcome, r.Transcript())
			}
			// Copies that were started last may be ended in this turn, with another notice.
			if r := s.RunCode(t, "6 * 7"); r.Outcome != "ok" || !strings.HasSuffix(r.OutputText(), "42\n") {
				t.Errorf("got %q %q", r.Outcome, r.Transcript())
			}
		})
	})
}

// turnTimeout is long enough for the short turns of a test on a busy machine.
const turnTimeout = 5 * time.Second

func TestTurnLimit(t *testing.T) {
	t.Run("ends a loop and keeps the session", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			s := openPython(t, box, workers.Limits{Turn: turnTimeout})
			s.RunCode(t, "x = 41").WantTranscript(t, "")
			r := s.RunCode(t, "while True: pass")
			if r.Outcome != "interrupted" || !strings.Contains(r.Transcript(), "[limit interrupted: this turn's limit of 5 s]") {
				t.Errorf("got %q %q", r.Outcome, r.Transcript())
			}
			s.RunCode(t, "x + 1").WantTranscript(t, "42\n")
		})
	})

	t.Run("ends code that swallows the first interrupt", func(t *testing.T) {
		s := openPython(t, nil, workers.Limits{Turn: turnTimeout})
		r := s.RunCode(t, "import time\nfor _ in range(10):\n  try: time.sleep(100)\n  except KeyboardInterrupt: pass")
		if r.Outcome != "interrupted" || !strings.Contains(r.Transcript(), "limit of 5 s") {
			t.Errorf("got %q %q", r.Outcome, r.Transcript())
		}
		s.RunCode(t, "1 + 1").WantTranscript(t, "2\n")
	})
}
