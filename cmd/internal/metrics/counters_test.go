package metrics_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/internal/testkit/promtext"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func parse(t testing.TB, text string) map[string]*promtext.Family {
	t.Helper()
	families, err := promtext.Parse(text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return families
}

func wantValue(t *testing.T, families map[string]*promtext.Family, want float64, name string, labels ...string) {
	t.Helper()
	family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
	for _, s := range families[family].Samples {
		same := s.Name == name && len(s.Labels) == len(labels)/2
		for i := 0; i < len(labels); i += 2 {
			same = same && s.Labels[labels[i]] == labels[i+1]
		}
		if same {
			if s.Value != want {
				t.Errorf("%s %q is %v, want %v", name, labels, s.Value, want)
			}
			return
		}
	}
	t.Errorf("there is no %s %q", name, labels)
}

func turnEvent(outcome timeline.Outcome, elapsed time.Duration) timeline.Event {
	return timeline.Event{Turn: 1, Body: timeline.TurnEnded{Outcome: outcome, Elapsed: elapsed, Name: "SecretError", Message: "secret"}}
}

func TestCounters(t *testing.T) {
	t.Parallel()

	t.Run("count each kind of event", func(t *testing.T) {
		t.Parallel()
		c := metrics.NewCounters()
		for _, e := range []timeline.Event{
			{Body: timeline.WorkerStarted{Worker: "secret"}},
			{Body: timeline.TurnEnded{Outcome: timeline.OutcomeOK}}, // the start-up
			turnEvent(timeline.OutcomeOK, time.Millisecond),         // on a bound
			turnEvent(timeline.OutcomeOK, 1500*time.Microsecond),
			turnEvent(timeline.OutcomeError, 3*time.Second),
			turnEvent(timeline.OutcomeInterrupted, 2*time.Hour),
			{Turn: 1, Body: timeline.Text{Data: []byte("secret")}},
			{Turn: 1, Body: timeline.AccessDenied{Op: "write", Path: "/secret"}},
			{Turn: 1, Body: timeline.Limit{Kind: "memory"}},
			{Body: timeline.WorkerExited{Reason: "closed", Clean: true}},
			{Body: timeline.WorkerExited{Reason: "reset", Clean: true}},
			{Body: timeline.WorkerExited{Reason: "exit status 3", ExitCode: 3}},
			{Body: timeline.WorkerExited{Reason: "killed", Signal: "SIGKILL", ExitCode: -1}},
			{Body: timeline.WorkerExited{Reason: "exit status 1", ExitCode: 1, NeverReady: true}},
			{Body: timeline.WorkerExited{Reason: "worker failed: secret", Signal: "SIGKILL"}},
			{Body: timeline.Notice{Message: "secret"}},
		} {
			c.CountEvent("python", e)
		}
		text := c.Format(metrics.Gauges{Version: `v"1\`, Connections: 2, Paused: true, Sessions: []metrics.SessionGauge{
			{Language: "python", State: session.StateIdle, MemoryBytes: 3 << 20}, {Language: "python", State: session.StateIdle, MemoryBytes: 1 << 20}, {Language: "r", State: session.StateWaiting},
		}})
		if strings.Contains(strings.ToLower(text), "secret") {
			t.Errorf("the text has what only the user may see:\n%s", text)
		}
		f := parse(t, text)
		wantValue(t, f, 1, "turnstone_build_info", "version", `v"1\`)
		wantValue(t, f, 2, "turnstone_connections")
		wantValue(t, f, 0, "turnstone_accepts_work")
		wantValue(t, f, 2, "turnstone_sessions", "language", "python", "state", "idle")
		wantValue(t, f, 0, "turnstone_sessions", "language", "python", "state", "running")
		wantValue(t, f, 1, "turnstone_sessions", "language", "r", "state", "waiting")
		wantValue(t, f, 4<<20, "turnstone_session_memory_bytes", "language", "python")
		wantValue(t, f, 2, "turnstone_turns_total", "language", "python", "outcome", "ok")
		wantValue(t, f, 1, "turnstone_turns_total", "language", "python", "outcome", "error")
		wantValue(t, f, 0, "turnstone_turns_total", "language", "python", "outcome", "ended")
		wantValue(t, f, 0, "turnstone_turns_total", "language", "r", "outcome", "ok")
		wantValue(t, f, 1, "turnstone_turn_duration_seconds_bucket", "language", "python", "le", "0.001")
		wantValue(t, f, 2, "turnstone_turn_duration_seconds_bucket", "language", "python", "le", "0.005")
		wantValue(t, f, 3, "turnstone_turn_duration_seconds_bucket", "language", "python", "le", "3600")
		wantValue(t, f, 4, "turnstone_turn_duration_seconds_bucket", "language", "python", "le", "+Inf")
		wantValue(t, f, 7203.0025, "turnstone_turn_duration_seconds_sum", "language", "python")
		wantValue(t, f, 6, "turnstone_output_bytes_total", "language", "python")
		wantValue(t, f, 1, "turnstone_worker_starts_total", "language", "python")
		for _, reason := range []string{"closed", "reset", "exit", "signal", "never_ready", "failure"} {
			wantValue(t, f, 1, "turnstone_worker_exits_total", "language", "python", "reason", reason)
		}
		wantValue(t, f, 1, "turnstone_access_denials_total", "language", "python")
		wantValue(t, f, 1, "turnstone_limit_events_total", "language", "python")
	})

	t.Run("are a valid text without any event", func(t *testing.T) {
		t.Parallel()
		wantValue(t, parse(t, metrics.NewCounters().Format(metrics.Gauges{})), 1, "turnstone_accepts_work")
	})

	t.Run("have a bounded number of languages, with plain names", func(t *testing.T) {
		t.Parallel()
		c := metrics.NewCounters()
		var gauges metrics.Gauges
		for _, name := range []string{"a\"}\n# HELP", strings.Repeat("x", 1000), "", "bücher"} {
			c.CountEvent(name, turnEvent(timeline.OutcomeOK, 0))
		}
		for i := range 2000 {
			name := fmt.Sprint("worker", i)
			c.CountEvent(name, turnEvent(timeline.OutcomeOK, 0))
			gauges.Sessions = append(gauges.Sessions, metrics.SessionGauge{Language: name}, metrics.SessionGauge{Language: "more" + name})
		}
		text := c.Format(gauges)
		f := parse(t, text)
		wantValue(t, f, 4+2000-31, "turnstone_turns_total", "language", "other", "outcome", "ok")
		wantValue(t, f, 4000-31, "turnstone_sessions", "language", "other", "state", "preparing")
		if n := len(f["turnstone_session_memory_bytes"].Samples); n != 32 {
			t.Errorf("%d languages", n)
		}
		if len(text) > 128<<10 {
			t.Errorf("the text has %d bytes", len(text))
		}
	})

	t.Run("count events of many sessions at the same time", func(t *testing.T) {
		t.Parallel()
		c := metrics.NewCounters()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 1000 {
					c.CountEvent(fmt.Sprint("l", i%3), turnEvent(timeline.OutcomeOK, time.Second))
					if i == 0 {
						_ = parse(t, c.Format(metrics.Gauges{})) // a histogram is consistent while it is counted
					}
				}
			})
		}
		wg.Wait()
		f := parse(t, c.Format(metrics.Gauges{}))
		wantValue(t, f, 3000, "turnstone_turns_total", "language", "l0", "outcome", "ok")
		wantValue(t, f, 2000, "turnstone_turn_duration_seconds_count", "language", "l2")
	})
}

func BenchmarkCountEvent(b *testing.B) {
	c := metrics.NewCounters()
	e := turnEvent(timeline.OutcomeOK, time.Second)
	for b.Loop() {
		c.CountEvent("python", e)
	}
}
