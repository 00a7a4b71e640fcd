package otelturnstone_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/otelturnstone"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, Programs: []testmain.Program{fakeworker.Program}})
}

// testTimeout bounds every wait for a real process, generously.
const testTimeout = 60 * time.Second

// newSession returns a traced session, the session without spans, and what the tracer exports.
func newSession(t *testing.T, prepare ...workers.Preparation) (traced session.Session, plain *supervisor.Session, provider *trace.TracerProvider, exported *tracetest.InMemoryExporter) {
	t.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
	spec.Env = append(spec.Env, "GORACE=atexit_sleep_ms=0")
	spec.Preparations = prepare
	plain, err = sup.Open(t.Context(), "main", spec)
	if err != nil {
		t.Fatal(err)
	}
	exported = tracetest.NewInMemoryExporter()
	provider = trace.NewTracerProvider(trace.WithSyncer(exported))
	return otelturnstone.Session(plain, provider.Tracer("test")), plain, provider, exported
}

func withTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// runTurn runs code and waits for the end of its turn.
func runTurn(t *testing.T, s session.Session, code string) session.Reply {
	t.Helper()
	r, err := session.StartTurn(s, code, nil).Wait(withTimeout(t), nil)
	if err != nil {
		t.Fatalf("%q: %v", code, err)
	}
	return r
}

// waitSpans waits until n spans have ended, and returns them in the order of their starts.
func waitSpans(t *testing.T, exported *tracetest.InMemoryExporter, n int) tracetest.SpanStubs {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d spans have ended", n), func() bool { return len(exported.GetSpans()) >= n })
	spans := exported.GetSpans()
	slices.SortFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return spans
}

// attributesOf returns the attributes of a span as text.
func attributesOf(span tracetest.SpanStub) map[string]string {
	all := make(map[string]string)
	for _, a := range span.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func wantAttributes(t *testing.T, span tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := attributesOf(span)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q; all are %v", key, got[key], value, got)
		}
	}
}

func TestSession_Contract(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
		traced, _, _, _ := newSession(t, prepare...)
		return traced
	})
}

func TestSession(t *testing.T) {
	t.Parallel()

	t.Run("a turn has a span, which is a child of the caller's", func(t *testing.T) {
		t.Parallel()
		s, _, provider, exported := newSession(t)
		ctx, parent := provider.Tracer("test").Start(withTimeout(t), "agent")
		turn, err := s.As("ada").Submit(ctx, "print hello\ndisplay a b")
		if err != nil {
			t.Fatal(err)
		}
		span := waitSpans(t, exported, 1)[0]
		if span.Parent.SpanID() != parent.SpanContext().SpanID() || span.SpanContext.TraceID() != parent.SpanContext().TraceID() {
			t.Errorf("the parent is %v", span.Parent)
		}
		if span.Name != "turnstone.turn" || span.Status.Code != codes.Unset || !span.EndTime.After(span.StartTime) {
			t.Errorf("got %+v", span)
		}
		want := "00-" + span.SpanContext.TraceID().String() + "-" + span.SpanContext.SpanID().String() + "-01"
		if got := startEvent(t, s, turn).TraceParent; got != want {
			t.Errorf("the turn started in %q, want %q", got, want)
		}
		wantAttributes(t, span, map[string]string{
			"turnstone.session": "main", "turnstone.author": "ada", "turnstone.turn": fmt.Sprint(turn), "turnstone.input_bytes": "23",
			"turnstone.output_bytes": "6", "turnstone.displays": "1", "turnstone.outcome": "ok", "turnstone.silent": "", "error.type": "",
		})
	})

	t.Run("each way to start a turn has one span", func(t *testing.T) {
		t.Parallel()
		s, _, _, exported := newSession(t)
		ctx := withTimeout(t)
		for i, start := range []func() (uint64, error){
			func() (uint64, error) { return s.Submit(ctx, "print a") },
			func() (uint64, error) { return s.SubmitSilent(ctx, "print a") },
			func() (uint64, error) { return s.SubmitMayExit(ctx, "print a") },
			func() (uint64, error) {
				r, err := session.StartTurn(s, "print a", nil).Wait(ctx, nil)
				return r.Turn, err
			},
		} {
			turn, err := start()
			if err == nil {
				_, err = s.Wait(ctx, turn, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			span := waitSpans(t, exported, i+1)[i]
			wantAttributes(t, span, map[string]string{"turnstone.turn": fmt.Sprint(turn), "turnstone.outcome": "ok"})
			if silent := attributesOf(span)["turnstone.silent"] == "true"; silent != (i == 1) {
				t.Errorf("start %d: silent is %v", i, silent)
			}
		}
	})

	t.Run("an error, an interrupt and the end of the worker end the span", func(t *testing.T) {
		t.Parallel()
		s, _, _, exported := newSession(t)
		runTurn(t, s, "error ValueError bad")
		turn, err := s.Submit(withTimeout(t), "sleep")
		if err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the turn runs", func() bool { i, err := s.Info(withTimeout(t)); return err == nil && i.State == session.StateRunning })
		if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(withTimeout(t), turn, nil); err != nil {
			t.Fatal(err)
		}
		runTurn(t, s, "die 3")
		runTurn(t, s, "print again")
		spans := waitSpans(t, exported, 4)
		for i, want := range []string{"error", "interrupted", "ended", "ok"} {
			wantAttributes(t, spans[i], map[string]string{"turnstone.outcome": want})
			if failed := spans[i].Status.Code == codes.Error; failed != (want != "ok") {
				t.Errorf("%s: the status is %v", want, spans[i].Status)
			}
		}
		wantAttributes(t, spans[0], map[string]string{"error.type": "ValueError"})
	})

	t.Run("a refused turn has a span with the kind of the refusal", func(t *testing.T) {
		t.Parallel()
		s, plain, _, exported := newSession(t)
		turn, err := plain.Submit(withTimeout(t), "wait password? ")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(withTimeout(t), turn, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(withTimeout(t), "print no"); !errors.Is(err, session.ErrWaiting) {
			t.Errorf("got %v", err)
		}
		if _, err := session.StartTurn(s, "print no", nil).Wait(withTimeout(t), nil); !errors.Is(err, session.ErrWaiting) {
			t.Errorf("in one step: got %v", err)
		}
		for _, span := range waitSpans(t, exported, 2) {
			wantAttributes(t, span, map[string]string{"error.type": "waiting", "turnstone.turn": ""})
			if span.Status.Code != codes.Error {
				t.Errorf("the status is %v", span.Status)
			}
			wantNoWords(t, span, "password")
		}
	})

	t.Run("a span has no code, output, prompts or messages", func(t *testing.T) {
		t.Parallel()
		s, _, _, exported := newSession(t)
		runTurn(t, s, "print secret1\nerror secret-2! secret3")
		turn, err := s.Submit(withTimeout(t), "wait secret4? ")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Wait(withTimeout(t), turn, nil)
		if err != nil || r.InputRequest == nil {
			t.Fatalf("got %+v, %v", r, err)
		}
		if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("secret5\n")}); err != nil {
			t.Fatal(err)
		}
		spans := waitSpans(t, exported, 2)
		for _, span := range spans {
			wantNoWords(t, span, "secret", "print")
		}
		wantAttributes(t, spans[0], map[string]string{"error.type": "_OTHER"})
		if len(spans[1].Events) != 1 || spans[1].Events[0].Name != "input_requested" {
			t.Errorf("events: %+v", spans[1].Events)
		}
	})

	t.Run("the events of a span are bounded", func(t *testing.T) {
		t.Parallel()
		s, _, _, exported := newSession(t)
		turn, err := s.Submit(withTimeout(t), strings.Repeat("wait more\n", 150))
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, err := s.Wait(withTimeout(t), turn, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.InputRequest == nil {
				break
			}
			if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("x\n")}); err != nil {
				t.Fatal(err)
			}
		}
		events := waitSpans(t, exported, 1)[0].Events
		if len(events) != 100 || events[99].Name != "further_events_left_out" {
			t.Errorf("%d events, the last is %+v", len(events), events[len(events)-1])
		}
	})
}

// startEvent returns the first event of a turn.
func startEvent(t *testing.T, s session.Session, turn uint64) timeline.TurnStarted {
	t.Helper()
	for e, err := range session.TurnEvents(withTimeout(t), s, turn) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := e.Body.(timeline.TurnStarted); ok {
			return b
		}
	}
	return timeline.TurnStarted{}
}

// wantNoWords fails if a span has one of the words anywhere.
func wantNoWords(t *testing.T, span tracetest.SpanStub, words ...string) {
	t.Helper()
	texts := []string{span.Name, span.Status.Description}
	add := func(list []attribute.KeyValue) {
		for _, a := range list {
			texts = append(texts, string(a.Key), a.Value.String())
		}
	}
	add(span.Attributes)
	for _, e := range span.Events {
		texts = append(texts, e.Name)
		add(e.Attributes)
	}
	for _, word := range words {
		if all := strings.Join(texts, "\n"); strings.Contains(all, word) {
			t.Errorf("a span has %q: %s", word, all)
		}
	}
}

// TestFollower is not parallel, because it looks for goroutines of the whole process.
func TestFollower(t *testing.T) {
	t.Run("continues when the context of the call ends, and ends with the turn", func(t *testing.T) {
		s, _, _, exported := newSession(t)
		file := filepath.Join(t.TempDir(), "go")
		ctx, cancel := context.WithCancel(t.Context())
		turn, err := s.Submit(ctx, "until "+file+"\nprint done")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		wait.Until(t, "the follower runs", func() bool { return followers() == 1 })
		if n := len(exported.GetSpans()); n != 0 {
			t.Errorf("%d spans have ended while the turn runs", n)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(withTimeout(t), turn, nil); err != nil {
			t.Fatal(err)
		}
		wantAttributes(t, waitSpans(t, exported, 1)[0], map[string]string{"turnstone.outcome": "ok", "turnstone.output_bytes": "5"})
		wait.Until(t, "no follower is left", func() bool { return followers() == 0 })
	})

	t.Run("ends when the session is closed during a turn", func(t *testing.T) {
		s, _, _, exported := newSession(t)
		for range 3 {
			turn, err := s.Submit(withTimeout(t), "sleep")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Wait(withTimeout(t), turn, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Submit(withTimeout(t), "sleep"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
		last := waitSpans(t, exported, 4)[3]
		if last.Status.Code != codes.Error {
			t.Errorf("the status is %v, the attributes are %v", last.Status, attributesOf(last))
		}
		wait.Until(t, "no follower is left", func() bool { return followers() == 0 })
	})
}

// followers returns the number of goroutines that follow a turn.
func followers() int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "otelturnstone.(*follower).follow(")
}

// BenchmarkTurn compares turns with and without a span.
func BenchmarkTurn(b *testing.B) {
	for _, name := range []string{"plain", "traced"} {
		b.Run(name, func(b *testing.B) {
			sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer sup.Close()
			plain, err := sup.Open(b.Context(), "main", fakeworker.NewSpec(testexec.OwnPath(), nil))
			if err != nil {
				b.Fatal(err)
			}
			var s session.Session = plain
			if name == "traced" {
				s = otelturnstone.Session(plain, trace.NewTracerProvider().Tracer("test"))
			}
			for b.Loop() {
				turn, err := s.Submit(b.Context(), "print a")
				if err == nil {
					_, err = s.Wait(b.Context(), turn, nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
