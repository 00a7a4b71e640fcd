package limits

import (
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// Memory that no process has mapped counts as well.

// wantLimitError runs code that uses much more than the limit, and checks that the reply names the
// limit.
func wantLimitError(t *testing.T, s *sessionkit.TestSession, code string) {
	t.Helper()
	r := s.RunCode(t, code)
	if r.Outcome != "ended" || r.WorkerExit == nil || !strings.Contains(r.WorkerExit.Reason, "limit") || !strings.Contains(r.WorkerExit.Reason, "192 MiB") {
		t.Errorf("got %q %s %+v: %.600q", r.Outcome, r.Failure, r.WorkerExit, r.Transcript())
	}
	s.RunCode(t, "6 * 7")
	s.WantOutput(t, "6 * 7", "42\n")
}

func TestMemoryAccounting(t *testing.T) {
	t.Run("counts files without a name", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			s := openPython(t, box, workers.Limits{Memory: memoryLimit})
			wantLimitError(t, s, "import os\nf = os.memfd_create('x')\nfor _ in range(800): n = os.write(f, bytes(1 << 20))")
		})
		t.Run("counts mapped files only once", func(t *testing.T) {
			s := openPython(t, nil, workers.Limits{Memory: memoryLimit})
			s.RunCode(t, "import mmap, os, time\nf = os.memfd_create('x')\nos.ftruncate(f, 120 << 20)\nm = mmap.mmap(f, 120 << 20)").WantTranscript(t, "")
			s.RunCode(t, "for i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(0.5)").WantTranscript(t, "")
		})
	})

	t.Run("bounds System V objects", func(t *testing.T) {
		none := "'No space left on device'"
		s := openPython(t, newSandbox(), workers.Limits{Memory: memoryLimit})
		s.RunCode(t, sysVCode).WantTranscript(t, "")
		s.RunCode(t, "a = made('shmget', 1234, 8 << 20, 0o600 | IPC_CREAT); n, e = fill(100, 'shmget', PRIVATE, 8 << 20, 0o600); n in (35, 23), e").WantTranscript(t, "(True, "+none+")\n") // 288 MiB, in a group 192
		s.RunCode(t, "made('shmget', 1234, 8 << 20, 0o600 | IPC_CREAT) == made('shmget', 1234, 0, 0) == a").WantTranscript(t, "True\n")
		s.RunCode(t, "made('shmget', 1235, 8 << 20, 0o600 | IPC_CREAT)").WantTranscript(t, none+"\n")
		s.RunCode(t, "made('shmget', PRIVATE, ctypes.c_size_t(1 << 63), 0o600)").WantTranscript(t, none+"\n")
		s.RunCode(t, "n, e = fill(400, 'msgget', PRIVATE, 0o600); 0 < n <= 288, e").WantTranscript(t, "(True, "+none+")\n")
		s.RunCode(t, "libc.shmctl(a, 0, None), made('semget', PRIVATE, 32000, 0o600) >= 0").WantTranscript(t, "(0, True)\n")
		s.RunCode(t, "n, e = fill(100, 'semget', PRIVATE, 32000, 0o600); 0 < n < 100, e").WantTranscript(t, "(True, "+none+")\n")
		s.RunCode(t, "6 * 7").WantTranscript(t, "42\n")
	})

	// Without a limit, no System V call is restricted.
	t.Run("leaves System V objects alone without a limit", func(t *testing.T) {
		s := openPython(t, newSandbox(), workers.Limits{})
		s.RunCode(t, sysVCode+"fill(10, 'shmget', PRIVATE, 8 << 20, 0o600)[0]").WantTranscript(t, "10\n")
	})

	// The limit on open files bounds memory that cannot be counted, and the first reply reports that.
	t.Run("reports in the first reply what is not counted", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			firstReply := func(l workers.Limits) (*sessionkit.TestSession, string) {
				if box != nil {
					sandboxcheck.RequireNamespaces(t)
				}
				spec := python.Spec(python.Options{Path: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")})
				spec.Sandbox, spec.Limits, spec.Dir = box, l, t.TempDir()
				s := sessionkit.LaunchSession(t, spec)
				reply, err := s.Wait(sessionkit.TimeoutContext(t), 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.WaitUntilReady(t)
				return s, reply.Text()
			}
			s, got := firstReply(workers.Limits{Memory: memoryLimit})
			const sentence, more = "the memory limit does not count data buffered in sockets and pipes", "System V shared memory"
			if grouped := s.RunCode(t, groupCode).OutputText() == "True\n"; strings.Contains(got, sentence) == grouped || strings.Contains(got, more) != (!grouped && box == nil) {
				t.Errorf("in a group: %t; got %q", grouped, got)
			} else if !grouped {
				s.RunCode(t, "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[1]").WantTranscript(t, "945\n")
			}
			if _, got := firstReply(workers.Limits{Processes: 1000}); strings.Contains(got, sentence) {
				t.Errorf("without a limit of memory: got %q", got)
			}
		})
	})

	// A control group counts data that waits in sockets.
	t.Run("counts data in sockets in a control group", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			s := openPython(t, box, workers.Limits{Memory: memoryLimit})
			requireGroup(t, s)
			wantLimitError(t, s, `import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
all = []
for _ in range(4000):
  a, b = socket.socketpair(); a.setblocking(False); all.append((a, b))
  try:
    while True: a.send(bytes(65536))
  except BlockingIOError: pass`)
		})
	})

	// A program that does not raise an error itself is killed, and the reply reports it.
	t.Run("kills a child beyond the limit and reports it", func(t *testing.T) {
		s := openPython(t, nil, workers.Limits{Memory: memoryLimit})
		child := "import mmap\nm = mmap.mmap(-1, 900 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1"
		s.RunCode(t, "import subprocess, sys, time; x = 41").WantTranscript(t, "")
		r := s.RunCode(t, "code = subprocess.run([sys.executable, '-c', '''"+child+"''']).returncode; time.sleep(1); code")
		if r.Outcome != "ok" || !strings.HasSuffix(r.OutputText(), "-9\n") || !strings.Contains(r.Transcript(), "of 192 MiB used") {
			t.Errorf("got %q %q", r.Outcome, r.Transcript())
		}
		s.WantOutput(t, "x + 1", "42\n")
	})
}

// sysVCode defines the calls for System V objects, which outlive processes.
const sysVCode = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def made(name, *args):
  id = getattr(libc, name)(*args)
  return id if id >= 0 else os.strerror(ctypes.get_errno())
def fill(most, name, *args): # no more, in case nothing bounds them: they take memory of the kernel
  n, last = 0, 0
  while n < most and not isinstance(last, str): last = made(name, *args); n += 1
  return n, last
IPC_CREAT, PRIVATE = 0o1000, 0
`

// groupCode reports whether a session is in a control group.
const groupCode = "any('/worker-' in line for line in open('/proc/self/cgroup'))"

// requireGroup skips a test if there are no control groups.
func requireGroup(t *testing.T, s *sessionkit.TestSession) {
	t.Helper()
	if s.RunCode(t, groupCode).OutputText() != "True\n" {
		t.Skip("no right to make a memory cgroup of version 2")
	}
}

// In a control group the process limit is exact even without a sandbox, and for root.
func TestProcessLimit_ControlGroup(t *testing.T) {
	s := openPython(t, nil, workers.Limits{Processes: 30})
	requireGroup(t, s)
	s.RunCode(t, forkCode).WantTranscript(t, "")
	if r := s.RunCode(t, "while True: fork()"); r.Failure != "BlockingIOError" {
		t.Errorf("got %q %s %q", r.Outcome, r.Failure, r.Transcript())
	}
	s.WantOutput(t, "20 < len(children) < 30 or len(children)", "True\n")
	s.WantOutput(t, "end()", "")
}
