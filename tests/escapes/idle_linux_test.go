package escapes

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing runs in an idle session: neither its worker nor any thread of its stage.
func TestSandbox_NothingRunsInAnIdleSession(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	box := workspace(m)
	box.Ask = true
	r := open(t, m, box)
	r.Run(t, "probes.kill(); _ = probes.wait(); open('made', 'w').close()")
	var processes []string
	for _, path := range glob(t, "/proc/[0-9]*/cmdline") {
		if dir := filepath.Dir(path); strings.Contains(readText(path), m.sessions+"/") {
			processes = append(processes, dir, "/proc/"+status(t, dir, "PPid:"))
		}
	}
	if len(processes) != 2 {
		t.Fatalf("got %q, want the worker and its stage", processes)
	}
	switches := func() (all string) {
		for _, p := range processes {
			for _, thread := range glob(t, p+"/task/*") {
				all += thread + " " + status(t, thread, "voluntary_ctxt_switches:") + "\n"
			}
		}
		return all
	}
	var before, after string
	for range 10 { // the first may see the end of the turn
		before = switches()
		if err := exec.CommandContext(t.Context(), "sleep", "2").Run(); err != nil {
			t.Fatal(err)
		}
		if after = switches(); after == before {
			return
		}
	}
	t.Errorf("threads ran in an idle session: before\n%safter\n%s", before, after)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// status returns a value of what the kernel says about a process or a thread.
func status(t *testing.T, dir, name string) string {
	t.Helper()
	for line := range strings.Lines(readText(dir + "/status")) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("%s has no %s", dir, name)
	return ""
}
