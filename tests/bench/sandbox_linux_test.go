package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// BenchmarkStart_InASandbox starts Python alternately without and with a sandbox, each time
// up to the first answer: what a sandbox adds is the difference of the medians, over-ms. The
// home directory has what a sandbox makes layers over and hides.
func BenchmarkStart_InASandbox(b *testing.B) {
	base, err := os.MkdirTemp("/var/tmp", "bench-") // not among /tmp's files, which a session does not see
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(base) })
	home, work := filepath.Join(base, "home"), filepath.Join(base, "home/work")
	for _, dir := range []string{".cache", ".config/gh", ".local/bin", ".ssh", ".aws", "R", "go", "work/.git/hooks", "work/src"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(base, "sessions"), Env: append(os.Environ(), "HOME="+home)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sup.Close() })
	spec := python.Spec(python.Options{Path: interpreter(b)})
	spec.Dir = work
	start := func(s *workers.Sandbox) time.Duration {
		spec.Sandbox = s
		began := time.Now()
		session, err := sup.Open(b.Context(), "bench", spec)
		if err != nil {
			b.Fatal(err)
		}
		if r := run(b, session, "1"); r.Outcome != timeline.OutcomeOK {
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
		with = append(with, start(&workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(median(without))/1e3, "without-ms")
	b.ReportMetric(micros(median(with))/1e3, "with-ms")
	b.ReportMetric(micros(median(with)-median(without))/1e3, "over-ms")
	b.ReportMetric(micros(slices.Min(with)-slices.Min(without))/1e3, "over-best-ms")
}
