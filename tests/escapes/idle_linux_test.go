package escapes

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestSandboxIdle(t *testing.T) {
	t.Parallel()

	// Nothing runs in an idle session: neither its worker nor any thread of its monitor.
	t.Run("runs nothing in an idle session", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.AskUser = true
		r := openSession(t, m, box)
		r.RunCode(t, "probes.kill(); _ = probes.wait(); open('made', 'w').close()")
		worker, monitor := m.findProcesses(t)
		switches := func() (all string) {
			for _, p := range []string{worker, monitor} {
				for _, thread := range globPaths(t, p+"/task/*") {
					all += thread + " " + readStatus(t, thread, "voluntary_ctxt_switches:") + "\n"
				}
			}
			return all
		}
		var before, after string
		for range 10 { // the first round may see the end of the turn
			before = switches()
			if err := exec.CommandContext(t.Context(), "sleep", "2").Run(); err != nil {
				t.Fatal(err)
			}
			if after = switches(); after == before {
				return
			}
		}
		t.Errorf("threads ran in an idle session: before\n%safter\n%s", before, after)
	})

	// A session lives for days. The monitor frees the memory and descriptors of the calls that it
	// makes.
	t.Run("does not grow after a hundred thousand calls", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		_, monitor := m.findProcesses(t)
		wantOutput(t, r, `
import os
def calls(n):
    for i in range(n): os.close(os.open('again', os.O_WRONLY | os.O_CREAT))
    return n
calls(10_000)`, "10000")
		before := readPrivateMemory(t, monitor)
		for range 9 {
			wantOutput(t, r, "calls(10_000)", "10000")
		}
		if now := readPrivateMemory(t, monitor); now > before+8<<10 {
			t.Errorf("the private memory of the monitor grew to %d KiB, from %d KiB after a tenth of the calls", now, before)
		}
	})
}

// readPrivateMemory returns the memory of a process that is not backed by files.
func readPrivateMemory(t *testing.T, dir string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(readStatus(t, dir, "RssAnon:"), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// findProcesses returns the directories in /proc of the worker and the monitor of a machine's only
// session.
func (m *machine) findProcesses(t *testing.T) (worker, monitor string) {
	t.Helper()
	var found []string
	for _, path := range globPaths(t, "/proc/[0-9]*/cmdline") {
		if dir := filepath.Dir(path); strings.Contains(readText(path), m.sessions+"/") {
			found = append(found, dir, "/proc/"+readStatus(t, dir, "PPid:"))
		}
	}
	if len(found) != 2 {
		t.Fatalf("got %q, want the worker and its monitor", found)
	}
	return found[0], found[1]
}

func globPaths(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// readStatus returns a value from the status file of a process or a thread.
func readStatus(t *testing.T, dir, name string) string {
	t.Helper()
	for line := range strings.Lines(readText(dir + "/status")) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("%s has no %s", dir, name)
	return ""
}
