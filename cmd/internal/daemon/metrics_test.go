package daemon_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/internal/testkit/promtext"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	counters := metrics.NewCounters()
	r := startDaemon(t, func(o *daemon.Options) {
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), OnEvent: counters.CountEvent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		o.Supervisor, o.Counters = sup, counters
	})
	c := r.dial()
	const name = "private-name"
	if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name}); err != nil {
		t.Fatal(err)
	}
	run := func(code string) {
		t.Helper()
		reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: name, Input: code, WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.Outcome == "" {
			t.Fatalf("%s: got %+v, %v", code, reply, err)
		}
	}
	run("print hello")
	run("error PrivateError bad")
	run("die 3")
	exits, signals := 1., 1.
	if !hasSignals {
		run("die 4")
		exits, signals = 2, 0
	} else {
		run("crash KILL")
	}
	run("print again")
	if _, err := c.ResetSession(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	run("print more")
	text, err := c.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	families, err := promtext.Parse(text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"turnstone_build_info", []string{"version", "test"}, 1},
		{"turnstone_connections", nil, 1},
		{"turnstone_accepts_work", nil, 1},
		{"turnstone_sessions", []string{"language", "fake", "state", "idle"}, 1},
		{"turnstone_turns_total", []string{"language", "fake", "outcome", "ok"}, 3},
		{"turnstone_turns_total", []string{"language", "fake", "outcome", "error"}, 1},
		{"turnstone_turns_total", []string{"language", "fake", "outcome", "ended"}, 2},
		{"turnstone_worker_starts_total", []string{"language", "fake"}, 4},
		{"turnstone_worker_exits_total", []string{"language", "fake", "reason", "exit"}, exits},
		{"turnstone_worker_exits_total", []string{"language", "fake", "reason", "signal"}, signals},
		{"turnstone_worker_exits_total", []string{"language", "fake", "reason", "reset"}, 1},
		{"turnstone_output_bytes_total", []string{"language", "fake"}, float64(len("hello\nPrivateError: bad\nagain\nmore\n"))},
	} {
		if got, ok := families[want.name].Value(want.labels...); !ok && want.value != 0 || got != want.value {
			t.Errorf("%s %q is %v (%v), want %v", want.name, want.labels, got, ok, want.value)
		}
	}
	for _, name := range []string{"turnstone_daemon_memory_bytes", "turnstone_daemon_start_time_seconds"} {
		if got, ok := families[name].Value(); !ok || got <= 1e6 {
			t.Errorf("%s is %v (%v)", name, got, ok)
		}
	}
	if strings.Contains(strings.ToLower(text), "private") {
		t.Errorf("the text names a session or an error:\n%s", text)
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ctx := session.WithTraceParent(t.Context(), trace)
	s := c.Session("main")
	started := func(turn uint64) string {
		t.Helper()
		for e, err := range session.TurnEvents(t.Context(), s, turn) {
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := e.Body.(timeline.TurnStarted); ok {
				return b.TraceParent
			}
		}
		return "no event"
	}
	turn, err := s.Submit(ctx, "print a")
	if err == nil {
		_, err = s.Wait(t.Context(), turn, nil)
	}
	if got := started(turn); err != nil || got != trace {
		t.Errorf("got %q, %v", got, err)
	}
	reply, err := session.StartTurn(s, "print a", nil).Wait(ctx, session.WaitAtMost(processTimeout))
	if err != nil {
		t.Fatal(err)
	}
	if got := started(reply.Turn); got != trace {
		t.Errorf("in one step: got %q", got)
	}
	reply, err = session.StartTurn(s, "print a", nil).Wait(t.Context(), session.WaitAtMost(processTimeout))
	if err != nil {
		t.Fatal(err)
	}
	if got := started(reply.Turn); got != "" {
		t.Errorf("without a trace: got %q", got)
	}
	if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print a", TraceParent: "print(1)"}); err == nil || !strings.Contains(err.Error(), "traceparent must have the form of the W3C") {
		t.Errorf("another form: got %v", err)
	}
}
