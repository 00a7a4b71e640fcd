package limits

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

// memoryLimit is the memory limit of the sessions in these tests.
const memoryLimit = 192 << 20

// A memoryHog is code that uses up the memory of its session.
type memoryHog struct {
	name, code string
	want       string // the outcome, or its error
}

var pythonHogs = []memoryHog{
	{"one array", "b = bytearray(3 << 30)", "MemoryError"},
	{"steps of 10 MB", "l = []\nwhile True: l.append(bytearray(10 << 20))", "MemoryError"},
	{"small lists", "l = []\nwhile True: l.append([0] * 1000)", "MemoryError"},
	{"small objects", "l = []\nwhile True: l.append(object())", "MemoryError"},
	{"objects with attributes", "class O:\n  def __init__(self): self.a = self.b = 1\nl = []\nwhile True: l.append(O())", "MemoryError"},
	{"a dictionary", "d = {}\ni = 0\nwhile True: d[i] = str(i); i += 1", "MemoryError"},
	{"a string that doubles", "s = 'x'\nwhile True: s += s", "MemoryError"},
	{"caught and tried again", "l = []\nfor _ in range(3):\n  try:\n    while True: l.append(bytearray(1 << 20))\n  except MemoryError: pass", "ok"},
	{"untouched, then used", "l = [bytearray(80 << 20) for _ in range(2)]\nm = bytearray(80 << 20)", "MemoryError"},
	{"threads", "import threading\nl, go = [], threading.Event()\ndef f():\n  go.wait()\n  try:\n    while True: l.append(bytearray(1 << 20))\n  except MemoryError: pass\nts = [threading.Thread(target=f) for _ in range(8)]\nfor t in ts: t.start()\ngo.set()\nfor t in ts: t.join()", "ok"},
	{"a list of one element", "l = [0] * (1 << 30)", "MemoryError"},
	{"an iterator that is stored", "l = list(iter(int, 1))", "MemoryError"},
	{"an anonymous map", "import mmap\nl = []\nwhile True: l.append(mmap.mmap(-1, 10 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)); l[-1].write(b'x' * (10 << 20))", "Cannot allocate memory"},
	{"an unused map of addresses", "import mmap\nm = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, 0)\nm.close()", "ok"},
	{"several children", "import subprocess, sys\nps = [subprocess.Popen([sys.executable, '-c', 'l = []\\nwhile True: l.append(bytearray(1 << 20))'], stderr=subprocess.DEVNULL) for _ in range(4)]\nfor p in ps: assert p.wait() != 0", "ok"},
	{"a child", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'l = []\\nwhile True: l.append(bytearray(1 << 20))'], stderr=subprocess.DEVNULL).returncode", "ok"},
	{"a pool", "import multiprocessing as mp\ndef f(_):\n  l = []\n  try:\n    while True: l.append(bytearray(1 << 20))\n  except MemoryError: return len(l) > 5\nwith mp.get_context('fork').Pool(4) as p: print(p.map_async(f, range(8)).get(30))", "ok"},
	{"forks that share", "import os\nl = bytearray(os.urandom(80 << 20))\nfor _ in range(6):\n  if os.fork() == 0:\n    import time; time.sleep(0.3); os._exit(0)\nfor _ in range(6): assert os.wait()[1] == 0", "ok"},
}

var numpyHogs = []memoryHog{
	{"numpy at once", "import numpy as np\na = np.ones((1 << 30,))", "ArrayMemoryError"},
	{"numpy in steps", "import numpy as np\nl = []\nwhile True: l.append(np.ones(1 << 20))", "ArrayMemoryError"},
	{"numpy, zeros that are filled", "import numpy as np\na = np.zeros(20 << 20)\nb = np.zeros(20 << 20)\na[:] = 1\nb[:] = 1", "ArrayMemoryError"},
}

var rHogs = []memoryHog{
	{"one vector", "x <- numeric(4e8)", "cannot allocate"},
	{"vectors", "l <- list(); repeat l[[length(l) + 1]] <- numeric(1e6)", "cannot allocate"},
	{"small objects", "l <- NULL; repeat l <- list(l, 1)", "memory exhausted"},
	{"strings", "l <- character(); i <- 0; repeat { i <- i + 1; l[i] <- strrep(i, 1000) }", "cannot allocate"},
	{"a matrix", "x <- 41; l <- matrix(0, 1e5, 1e5)", "cannot allocate"},
	{"a vector that doubles", "l <- 1; repeat l <- c(l, l)", "cannot allocate"},
	{"a list that grows", "l <- list(); i <- 0; repeat { i <- i + 1; l[[i]] <- runif(1e4) }", "cannot allocate"},
	{"nested lists", "l <- list(); repeat l <- list(l, l, numeric(1e4))", "cannot allocate"},
	{"an environment", "l <- new.env(); i <- 0; repeat { i <- i + 1; assign(paste0('k', i), numeric(1e4), envir = l) }", "cannot allocate"},
	{"a data frame", "l <- data.frame(a = numeric(1e5)); repeat l <- rbind(l, l)", "cannot allocate"},
	{"a child", "r <- parallel::mclapply(1:2, function(i) { l <- list(); repeat l[[length(l) + 1]] <- numeric(1e6) })", "ok"},
}

// runHog runs a hog, and then checks the reply and the session.
func runHog(t *testing.T, s *sessionkit.TestSession, h memoryHog, lives, frees string) {
	t.Helper()
	s.RunCode(t, "x = 41").WantTranscript(t, "")
	r := s.RunCode(t, h.code)
	output := r.Transcript()
	got := r.Outcome
	if r.Failure != "" {
		got = r.Failure
	}
	switch {
	case h.want == "ok" && r.Outcome != "ok", h.want != "ok" && !strings.Contains(got+output, h.want):
		t.Errorf("got %q, want %s: %.600q", got, h.want, output)
	case h.want != "ok" && !strings.Contains(output, fmt.Sprintf("the limit of this session is %d MiB; this turn used up to ", memoryLimit>>20)):
		t.Errorf("the reply names no limit: %.600q", output)
	}
	if r := s.RunCode(t, lives); r.Outcome != "ok" || !strings.HasSuffix(r.Transcript(), "42\n") {
		t.Fatalf("the session does not survive: %q %q", r.Outcome, r.Transcript())
	}
	if r := s.RunCode(t, frees); r.Outcome != "ok" {
		t.Errorf("the session cannot free memory: %q %q", r.Outcome, r.Transcript())
	}
	if r := s.RunCode(t, lives); r.Outcome != "ok" {
		t.Errorf("after freeing: %q %q", r.Outcome, r.Transcript())
	}
	if used := sessionkit.SessionInfo(s).MemoryBytes; used > memoryLimit+32<<20 { // the figure includes the files of programs
		t.Errorf("%d MiB are still used", used>>20)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Run("Python raises its own error and the session lives on", func(t *testing.T) {
		hogs := pythonHogs
		if os.Getenv("TURNSTONE_TEST_MATPLOTLIB") != "" {
			hogs = append(hogs, numpyHogs...)
		}
		runHogs(t, hogs, func(t *testing.T, box *sandbox.Policy, h memoryHog) {
			runHog(t, openPython(t, box, workers.Limits{Memory: memoryLimit}), h, "x + 1", "l = d = s = m = a = b = None")
		})
	})

	t.Run("R raises its own error and the session lives on", func(t *testing.T) {
		runHogs(t, rHogs, func(t *testing.T, box *sandbox.Policy, h memoryHog) {
			runHog(t, openR(t, box, workers.Limits{Memory: memoryLimit}), h, "cat(x + 1, '\\n', sep = '')", "l <- r <- NULL; invisible(gc())")
		})
	})
}

// runHogs runs a test for each hog, without a sandbox and with one, one after the other, to spare
// the machine.
func runHogs(t *testing.T, hogs []memoryHog, test func(t *testing.T, box *sandbox.Policy, h memoryHog)) {
	for _, h := range hogs {
		t.Run(h.name, func(t *testing.T) {
			t.Run("plain", func(t *testing.T) { test(t, nil, h) })
			t.Run("sandbox", func(t *testing.T) {
				test(t, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, h)
			})
		})
	}
}
