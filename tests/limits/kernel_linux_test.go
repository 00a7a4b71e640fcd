package limits

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestFiles_AreBoundedInTheWorkerAndItsChildren(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *workers.Sandbox) {
		s := openPython(t, box, workers.Limits{Files: 80})
		s.Run(t, "import resource, subprocess, sys; resource.getrlimit(resource.RLIMIT_NOFILE)").Wants(t, "(80, 80)\n")
		s.Run(t, "print(subprocess.check_output('ulimit -n', shell=True).decode(), end='')").Wants(t, "80\n")
		if r := s.Run(t, "kept = [open('/dev/null') for _ in range(100)]"); r.Failure != "OSError" || !strings.Contains(r.Script(), "Too many open files") {
			t.Errorf("got %q %s", r.Outcome, r.Failure)
		}
		s.Run(t, "1 + 1").Wants(t, "2\n")
	})
}

func TestCPUs_AreThoseOfTheWorkerAndItsChildren(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *workers.Sandbox) {
		s := openPython(t, box, workers.Limits{CPUs: 1})
		s.Run(t, "import os, subprocess; len(os.sched_getaffinity(0))").Wants(t, "1\n")
		s.Run(t, "print(subprocess.check_output('nproc').decode(), end='')").Wants(t, "1\n")
	})
	t.Run("more than there are", func(t *testing.T) {
		s := openPython(t, nil, workers.Limits{CPUs: 4000})
		s.Run(t, "1 + 1").Wants(t, "2\n")
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

func TestProcesses_NoMoreCanBeStarted(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *workers.Sandbox) {
		requireForkLimit(t, box)
		s := openPython(t, box, workers.Limits{Processes: 30})
		s.Run(t, forkCode).Wants(t, "")
		for range 2 {
			if r := s.Run(t, "while True: fork()"); r.Failure != "BlockingIOError" {
				t.Errorf("got %q %s %q", r.Outcome, r.Failure, r.Script())
			}
			if box != nil { // there the kernel counts; our own count may be late
				wantOutput(t, s, "20 < len(children) <= 30 or len(children)", "True\n")
			}
			wantOutput(t, s, "end()", "")
		}
	})
}

// wantOutput runs code in a turn in which the line about the limit may stand yet: what looks at the
// processes is not in step with turns.
func wantOutput(t *testing.T, s *drive.REPL, code, want string) {
	t.Helper()
	if got := s.Run(t, code).Text(timeline.Stdout, timeline.Stderr); got != want {
		t.Errorf("%s: got %q, want %q", code, got, want)
	}
}

func TestProcesses_ABombLeavesTheSession(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *workers.Sandbox) {
		s := openPython(t, box, workers.Limits{Processes: 40, Turn: drive.Patience})
		bomb := "import os, time\nend = time.time() + 0.7\nme = os.getpid()\n" +
			"while time.time() < end:\n  try: os.fork()\n  except OSError: time.sleep(0.01)\n" +
			"if os.getpid() != me: os._exit(0)"
		if r := s.Run(t, bomb); r.Outcome != "ok" {
			t.Errorf("got %q %q", r.Outcome, r.Script())
		}
		if r := s.Run(t, "6 * 7"); r.Outcome != "ok" || !strings.HasSuffix(r.Script(), "42\n") {
			t.Errorf("got %q %q", r.Outcome, r.Script())
		}
	})
}

// turnTimeout is long enough for the short turns of a test on a busy machine.
const turnTimeout = 5 * time.Second

func TestTurnLimit_EndsALoopAndLeavesTheSession(t *testing.T) {
	withAndWithoutSandbox(t, func(t *testing.T, box *workers.Sandbox) {
		s := openPython(t, box, workers.Limits{Turn: turnTimeout})
		s.Run(t, "x = 41").Wants(t, "")
		r := s.Run(t, "while True: pass")
		if r.Outcome != "interrupted" || !strings.Contains(r.Script(), "[limit interrupted: this turn's limit of 5 s]") {
			t.Errorf("got %q %q", r.Outcome, r.Script())
		}
		s.Run(t, "x + 1").Wants(t, "42\n")
	})
}

func TestTurnLimit_EndsCodeThatSwallowsTheFirstInterrupt(t *testing.T) {
	s := openPython(t, nil, workers.Limits{Turn: turnTimeout})
	r := s.Run(t, "import time\nfor _ in range(10):\n  try: time.sleep(100)\n  except KeyboardInterrupt: pass")
	if r.Outcome != "interrupted" || !strings.Contains(r.Script(), "limit of 5 s") {
		t.Errorf("got %q %q", r.Outcome, r.Script())
	}
	s.Run(t, "1 + 1").Wants(t, "2\n")
}
