package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// waitDescendants returns the pids that the role "family" prints, by name.
func waitDescendants(t *testing.T, o *workerOutput) map[string]int {
	t.Helper()
	o.waitLine(t, "complete")
	text, _ := o.snapshot()
	found := make(map[string]int)
	for l := range strings.Lines(text) {
		if name, number, ok := strings.Cut(strings.TrimSpace(l), "="); ok {
			if pid, err := strconv.Atoi(number); err == nil {
				found[name] = pid
			}
		}
	}
	for _, name := range []string{"child", "detached", "group", "console", "orphan"} {
		if found[name] == 0 {
			t.Fatalf("got %q, want a descendant %q", text, name)
		}
	}
	if pid := found["breakaway"]; pid != 0 && !testexec.IsWine() {
		t.Errorf("process %d could break away from its job", pid)
	}
	return found
}

// A processWatch waits for the end of processes, each of which must have existed.
type processWatch struct {
	names   []string
	handles []windows.Handle
}

func newProcessWatch(t *testing.T, relatives map[string]int) *processWatch {
	t.Helper()
	g := &processWatch{}
	for name, pid := range relatives {
		h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
		if err != nil {
			t.Fatalf("%s (%d): %v", name, pid, err)
		}
		g.names, g.handles = append(g.names, name), append(g.handles, h)
	}
	return g
}

func (w *processWatch) waitEnded(t *testing.T, limit uint32) {
	t.Helper()
	for i, h := range w.handles {
		if got, err := windows.WaitForSingleObject(h, limit); err != nil || got != windows.WAIT_OBJECT_0 {
			t.Errorf("%s still exists: %v", w.names[i], err)
		}
		windows.CloseHandle(h)
	}
}

func TestTreeEnd_Windows(t *testing.T) {
	t.Run("Close ends every descendant", func(t *testing.T) {
		p, err := launch.Start(newRoleCommand("family"))
		if err != nil {
			t.Fatal(err)
		}
		g := newProcessWatch(t, waitDescendants(t, collectOutput(terminalReader{p})))
		if err := p.Close(); err != nil || len(p.Survivors()) > 0 {
			t.Errorf("got %v, remaining %v, want a clean end", err, p.Survivors())
		}
		g.waitEnded(t, 0) // already
		if got := p.Exit(); got.Signal != "SIGKILL" || got.MonitorKilled {
			t.Errorf("got %+v, want the exit of a killed worker", got)
		}
	})

	t.Run("ends every descendant with the worker", func(t *testing.T) {
		w := startRole(t, "family")
		g := newProcessWatch(t, waitDescendants(t, w.workerOutput))
		if err := w.Signal(monitorproto.Kill, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, "end of the family", w.Done())
		g.waitEnded(t, 0)
	})

	t.Run("a killed monitor ends the tree and is reported", func(t *testing.T) {
		w := startRole(t, "family")
		g := newProcessWatch(t, waitDescendants(t, w.workerOutput))
		if err := exec.Command("taskkill", "/f", "/pid", fmt.Sprint(launch.MonitorPID(w.WorkerProcess))).Run(); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, "end of the family", w.Done())
		g.waitEnded(t, 0)
		if got := w.Exit(); !got.MonitorKilled {
			t.Errorf("got %+v, want MonitorKilled", got)
		}
	})

	t.Run("ends every descendant when the supervisor exits", func(t *testing.T) {
		runSupervisorEnd(t, func(_ *exec.Cmd, stdin interface{ Close() error }) error { return stdin.Close() })
	})

	t.Run("ends every descendant when the supervisor is terminated", func(t *testing.T) {
		runSupervisorEnd(t, func(cmd *exec.Cmd, _ interface{ Close() error }) error { return cmd.Process.Kill() })
	})

	t.Run("a supervisor terminated during a start leaves nothing behind", func(t *testing.T) {
		name := fmt.Sprintf("dying-%d.exe", os.Getpid()) // this test may run more than once at a time
		program := copyTestBinary(t, name)
		seen := exec.Command(program)
		seen.Env = append(os.Environ(), roleEnv+"=forever")
		if err := seen.Start(); err != nil {
			t.Fatal(err)
		}
		got := countProcesses(t, name)
		seen.Process.Kill()
		seen.Wait()
		if got != 1 {
			t.Fatalf("got %d processes, want 1", got)
		}
		for n := range launch.CountStartSteps(newRoleCommand("forever")) {
			cmd := exec.Command(program, fmt.Sprint(n))
			cmd.Env = append(os.Environ(), roleEnv+"=dying")
			if out, err := cmd.CombinedOutput(); len(out) > 0 || cmd.ProcessState.ExitCode() != 1 {
				t.Fatalf("step %d: got %q, %v, want an end without output", n, out, err)
			}
			wait.Until(t, fmt.Sprintf("the processes of step %d have ended", n), func() bool { return countProcesses(t, name) == 0 })
		}
	})
}

// runSupervisorEnd ends a supervisor with a worker and checks that the tree ends. The system closes the
// only handle of the job, no matter how the supervisor ends.
func runSupervisorEnd(t *testing.T, end func(cmd *exec.Cmd, stdin interface{ Close() error }) error) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "family")
	cmd.Env = append(os.Environ(), roleEnv+"=supervise")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := collectOutput(stdout)
	g := newProcessWatch(t, waitDescendants(t, out))
	if err := end(cmd, stdin); err != nil {
		t.Error(err)
	}
	waitClosed(t, "end of the supervisor's output", out.ended)
	cmd.Wait()
	g.waitEnded(t, uint32(testTimeout.Milliseconds()))
}

// countProcesses returns how many processes of that name exist.
func countProcesses(t *testing.T, name string) (count int) {
	t.Helper()
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(list)
	entry := windows.ProcessEntry32{}
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Process32First(list, &entry); err == nil; err = windows.Process32Next(list, &entry) {
		if windows.UTF16ToString(entry.ExeFile[:]) == name {
			count++
		}
	}
	return count
}
