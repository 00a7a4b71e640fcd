package limits

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

// minTasksBeyondUser is how many tasks a session may have at least, in addition to the tasks of the
// user. It applies with a process limit or in a sandbox.
const minTasksBeyondUser = 2048

// countUserTasks returns the number of processes and threads of the user who runs these tests.
func countUserTasks(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", os.Getuid())) {
			continue
		}
		_, rest, _ := strings.Cut(string(status), "\nThreads:\t")
		count, _, _ := strings.Cut(rest, "\n")
		threads, _ := strconv.Atoi(count)
		n += threads
	}
	return n
}

// threadCode returns how many threads can be started; they have ended when it returns.
const threadCode = `import threading
threading.stack_size(65536)
def fill():
  go, all = threading.Event(), []
  try:
    while len(all) < 40000: all.append(threading.Thread(target=go.wait)); all[-1].start()
  except RuntimeError: pass
  go.set()
  for t in all[:-1]: t.join()

  return len(all)
`

func TestProcessBounds(t *testing.T) {
	// Between turns the supervisor does not check, so only the kernel stops new processes. The hard
	// limit of the test applies only if the limit of the session fails.
	t.Run("are enforced by the kernel between turns", func(t *testing.T) {
		requireForkLimit(t, nil)
		before := countUserTasks(t)
		s := openPython(t, nil, workers.Limits{Processes: 60})
		pipe := filepath.Join(sessionkit.SessionInfo(s).Dir, "count")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		bomb := threadCode + fmt.Sprintf(`
import os, resource, sys
most = %d
soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
resource.setrlimit(resource.RLIMIT_NPROC, (most if soft < 0 else min(soft, most), most))
sys.stdin.read()
n = fill()
with open('count', 'w') as f: f.write(str(n))`, before+2*minTasksBeyondUser)
		s.RunCode(t, "import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-c', '''"+bomb+"'''], stdin=subprocess.PIPE)").WantTranscript(t, "")
		s.RunCode(t, "import threading; threading.Timer(0.3, p.stdin.close).start()").WantTranscript(t, "")
		count := make(chan string, 1)
		go func() {
			text, _ := os.ReadFile(pipe) // waits until the bomb writes
			count <- string(text)
		}()
		var text string
		select {
		case text = <-count:
		case <-sessionkit.TimeoutContext(t).Done():
		}
		if n, err := strconv.Atoi(text); err != nil || n < 20 || n > minTasksBeyondUser+minTasksBeyondUser/4 {
			t.Errorf("%q threads were started, %v", text, err)
		}
		s.WantOutput(t, "6 * 7", "42\n")
	})

	t.Run("exist in a sandbox by default", func(t *testing.T) {
		s := openPython(t, newSandbox(), workers.Limits{})
		s.RunCode(t, threadCode).WantTranscript(t, "")
		most := max(minTasksBeyondUser, 256*runtime.NumCPU())
		s.RunCode(t, fmt.Sprintf("n = fill(); (200 < n <= %d) or n", most)).WantTranscript(t, "True\n")
		s.RunCode(t, "import subprocess; subprocess.run(['true']).returncode").WantTranscript(t, "0\n")
	})

	// Programs that the user starts elsewhere do not count against a session's limit.
	t.Run("do not count other processes of the user", func(t *testing.T) {
		for _, c := range []struct {
			name   string
			box    *sandbox.Policy
			limits workers.Limits
		}{
			{"a limit", nil, workers.Limits{Processes: 60}},
			{"a limit in a sandbox", newSandbox(), workers.Limits{Processes: 60}},
			{"a sandbox", newSandbox(), workers.Limits{}},
		} {
			t.Run(c.name, func(t *testing.T) { // one after the other: each case starts a thousand threads
				s := openPython(t, c.box, c.limits)
				s.RunCode(t, forkCode).WantTranscript(t, "")
				startThousandTasks(t)
				for range 2 { // again after a check
					s.RunCode(t, "for _ in range(20): fork()").WantTranscript(t, "")
					s.RunCode(t, "import time; time.sleep(1.2); end()").WantTranscript(t, "")
				}
			})
		}
	})
}

// startThousandTasks starts a thousand more threads of the tests' user, until the test ends.
func startThousandTasks(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "-c", `import sys, threading
threading.stack_size(65536)
go = threading.Event()
for _ in range(1000): threading.Thread(target=go.wait, daemon=True).start()
print('there', flush=True)
sys.stdin.read()`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "there\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}
