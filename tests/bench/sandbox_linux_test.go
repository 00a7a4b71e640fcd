package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// BenchmarkStart_InASandbox starts Python alternately without and with a sandbox, up to the first
// answer. The cost of the sandbox is the difference of the medians, over-ms.
func BenchmarkStart_InASandbox(b *testing.B) {
	path := pythonPath(b)
	sup, work := newSupervisor(b)
	spec := python.Spec(python.Options{Path: path})
	spec.Dir = work
	start := func(s *sandbox.Policy) time.Duration {
		spec.Sandbox = s
		began := time.Now()
		session, err := sup.Open(b.Context(), "bench", spec)
		if err != nil {
			b.Fatal(err)
		}
		if r := runCode(b, session, "1"); r.Outcome != timeline.OutcomeOK {
			b.Fatalf("got %q: %s", r.Outcome, r.Text())
		}
		took := time.Since(began)
		if err := session.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var without, with []time.Duration
	for b.Loop() {
		without = append(without, start(nil))
		with = append(with, start(confinedWorkspace()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(microseconds(medianDuration(without))/1e3, "without-ms")
	b.ReportMetric(microseconds(medianDuration(with))/1e3, "with-ms")
	b.ReportMetric(microseconds(medianDuration(with)-medianDuration(without))/1e3, "over-ms")
	b.ReportMetric(microseconds(slices.Min(with)-slices.Min(without))/1e3, "over-best-ms")
}

// BenchmarkGrant grants a running session one directory after the other, each with a repository,
// and measures the time until the session has it.
func BenchmarkGrant(b *testing.B) {
	path := pythonPath(b)
	sup, work := newSupervisor(b)
	spec := python.Spec(python.Options{Path: path})
	spec.Dir, spec.Sandbox = work, confinedWorkspace()
	s, err := sup.Open(b.Context(), "bench", spec)
	if err != nil {
		b.Fatal(err)
	}
	var grants, turns []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		runCode(b, s, "1+1")
		turns = append(turns, time.Since(began))

		dir := filepath.Join(work, "..", "..", fmt.Sprint("granted-", i))
		if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		if err := s.Allow(b.Context(), session.Grant{Write: dir}); err != nil {
			b.Fatal(err)
		}
		grants = append(grants, time.Since(began))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(microseconds(medianDuration(grants)), "us/grant")
	b.ReportMetric(microseconds(slices.Min(grants)), "us/grant-best")
	b.ReportMetric(microseconds(durationPercentile(grants, 0.9)), "us/grant-p90")
	b.ReportMetric(float64(medianDuration(grants))/float64(medianDuration(turns)), "x-turn")
}

// BenchmarkTurn_InASandbox compares turns of 1+1 in a plain session, in a session with a sandbox
// and in a session with limits. The target is 1.05 times the plain session.
func BenchmarkTurn_InASandbox(b *testing.B) {
	path := pythonPath(b)
	sup, work := newSupervisor(b)
	arms := []struct {
		unit    string
		sandbox *sandbox.Policy
		limits  workers.Limits
		session *supervisor.Session
		took    []time.Duration
	}{
		{unit: "plain"},
		{unit: "sandbox", sandbox: confinedWorkspace()},
		{unit: "limits", limits: workers.Limits{Memory: 1 << 30, Files: 1024, Turn: time.Hour}},
		{unit: "all", sandbox: confinedWorkspace(), limits: workers.Limits{Memory: 1 << 30, Processes: 64, CPUs: 1, Files: 1024, Disk: 256 << 20, Turn: time.Hour}},
	}
	for i := range arms {
		spec := python.Spec(python.Options{Path: path})
		spec.Dir, spec.Sandbox, spec.Limits = work, arms[i].sandbox, arms[i].limits
		s, err := sup.Open(b.Context(), arms[i].unit, spec)
		if err != nil {
			b.Fatal(err)
		}
		for range 50 {
			runCode(b, s, "1+1")
		}
		arms[i].session = s
	}
	for b.Loop() {
		for i := range arms { // in bursts, so that no variant always follows another's sleep
			for range 20 {
				began := time.Now()
				runCode(b, arms[i].session, "1+1")
				arms[i].took = append(arms[i].took, time.Since(began))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, a := range arms {
		b.ReportMetric(microseconds(medianDuration(a.took)), "us/"+a.unit)
		b.ReportMetric(float64(medianDuration(a.took))/float64(medianDuration(arms[0].took)), "x-"+a.unit)
	}
}

// BenchmarkOpenToWrite_InASandbox opens a file for writing from Python without and with a sandbox.
// The target is 30 us.
func BenchmarkOpenToWrite_InASandbox(b *testing.B) {
	path := pythonPath(b)
	sup, work := newSupervisor(b)
	const code = `
import os, time, statistics
def opens(flags):
    took = []
    for _ in range(2000):
        began = time.perf_counter_ns()
        fd = os.open('file', flags)
        took.append(time.perf_counter_ns() - began)
        os.close(fd)
    return statistics.median(took)
open('file', 'w').close()
print(opens(os.O_WRONLY), opens(os.O_WRONLY | os.O_CREAT), opens(os.O_RDONLY))
`
	for name, policy := range map[string]*sandbox.Policy{"plain": nil, "sandbox": confinedWorkspace()} {
		spec := python.Spec(python.Options{Path: path})
		spec.Dir, spec.Sandbox = work, policy
		s, err := sup.Open(b.Context(), name, spec)
		if err != nil {
			b.Fatal(err)
		}
		var write, create, read float64
		runCode(b, s, code)
		if _, err := fmt.Sscan(runCode(b, s, code).Text(), &write, &create, &read); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(write/1e3, "us/write-"+name)
		b.ReportMetric(create/1e3, "us/create-"+name)
		b.ReportMetric(read/1e3, "us/read-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// newSupervisor creates a supervisor and a workspace. The home directory has the files that a
// sandbox overlays and hides.
func newSupervisor(b *testing.B) (_ *supervisor.Supervisor, work string) {
	base := sandboxcheck.TempDir(b) // not below the temporary directory, which a session replaces
	home := filepath.Join(base, "home")
	work = filepath.Join(home, "work")
	for _, dir := range []string{".cache", ".config/gh", ".local/bin", ".ssh", ".aws", "R", "go", "work/.git/hooks", "work/src"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("HOME", home)
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(base, "sessions"), Env: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sup.Close() })
	return sup, work
}

func confinedWorkspace() *sandbox.Policy {
	return &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
}
