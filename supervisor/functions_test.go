package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newTextFunction returns a function with one parameter, as the fake worker calls it.
func newTextFunction(name string, f func(ctx context.Context, text string) (any, error)) supervisor.Function {
	type in struct {
		Text string `json:"text"`
	}
	return supervisor.FunctionOf(name, "For tests.", func(ctx context.Context, in in) (any, error) { return f(ctx, in.Text) })
}

func TestFunctionOf_Arguments(t *testing.T) {
	t.Parallel()
	type in struct {
		Name  string         `json:"name"`
		Small int8           `json:"small"`
		At    time.Time      `json:"at"`
		Data  []byte         `json:"data,omitempty"`
		List  []float64      `json:"list,omitempty"`
		Any   map[string]any `json:"any,omitempty"`
		Ptr   *bool          `json:"ptr"`
	}
	f := supervisor.FunctionOf("f", "", func(_ context.Context, v in) (in, error) { return v, nil })
	now := time.Unix(1, 5).UTC()
	got, err := f.Call(t.Context(), map[string]any{
		"name": "n", "small": 5.0, "at": now, "data": []byte{1}, "list": []any{int64(1), 2.5}, "any": map[string]any{"a": nil}, "ptr": true,
	})
	v, _ := got.(in)
	if err != nil || v.Name != "n" || v.Small != 5 || !v.At.Equal(now) || len(v.Data) != 1 || len(v.List) != 2 || v.List[0] != 1 || v.Ptr == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = f.Call(t.Context(), map[string]any{"name": "n", "small": int64(1), "at": "2026-01-02T03:04:05Z"}); err != nil || got.(in).At.Year() != 2026 {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = f.Call(t.Context(), map[string]any{"name": int64(1), "small": int64(300), "list": []any{"x"}, "more": nil, "at": "soon"})
	named, ok := errors.AsType[*supervisor.CallError](err)
	if !ok || named.Name != "TypeError" {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"unknown more", "name is 1, which is not a valid string", "small is 300, which is not a valid int8", "at is invalid", "list[0] is a string"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(f.Params, &schema); err != nil || len(schema.Properties) != 7 || strings.Join(schema.Required, " ") != "name small at" {
		t.Errorf("%v: %s", err, f.Params)
	}
	if !strings.HasPrefix(string(f.Params), `{"type":"object","properties":{"name":{"type":"string"},"small":`) {
		t.Errorf("the parameters are not in order: %s", f.Params)
	}
}

func TestFunctionCall(t *testing.T) {
	t.Parallel()

	t.Run("the context names the caller and ends with the worker", func(t *testing.T) {
		t.Parallel()
		callers, ended := make(chan supervisor.Caller, 4), make(chan error, 4)
		s := openSession(t, nil, fakeSpec(nil))
		err := s.SetFunctions(newTextFunction("block", func(ctx context.Context, _ string) (any, error) {
			callers <- supervisor.CallerOf(ctx)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}))
		if err != nil {
			t.Fatal(err)
		}
		waitUntilReady(t, s)
		for generation, end := range []func(turn uint64){
			func(turn uint64) { interruptTurn(t, s, turn) },
			func(uint64) {
				if err := s.Reset(t.Context()); err != nil {
					t.Error(err)
				}
			},
			func(uint64) { _ = s.Close(t.Context()) },
		} {
			turn, err := s.Submit(t.Context(), "call block x")
			if err != nil {
				t.Fatal(err)
			}
			want := supervisor.Caller{Session: s, Generation: uint64(max(1, generation)), Turn: turn, Function: "block"}
			if got := <-callers; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			end(turn)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the context ended with %v", err)
			}
		}
	})

	t.Run("a worker that violates the protocol is killed or ignored", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{
			"uncall 99\nprint on":                   "",
			"rawcall 7 echo\nrawcall 7 echo":        "it used call ID 7 twice",
			"rawcall 7 nothing\nuncall 7\nprint on": "",
		} {
			s := openSession(t, nil, fakeSpec(nil))
			release := make(chan struct{})
			err := s.SetFunctions(supervisor.Function{Name: "echo", Call: func(context.Context, map[string]any) (any, error) {
				<-release
				return nil, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			waitUntilReady(t, s)
			_, r := runTurn(t, s, code)
			if want == "" && !strings.HasSuffix(outputText(r.Events), "on\n") || want != "" && r.Outcome != timeline.OutcomeEnded {
				t.Errorf("%q: %s %q", code, r.Outcome, outputText(r.Events))
			}
			if end := exitReasons(r.Events); want != "" && (len(end) != 1 || !strings.Contains(end[0], want)) {
				t.Errorf("%q: its worker ended with %q, want %q", code, end, want)
			}
			close(release)
		}
	})

	t.Run("rejects a call from a worker that was sent no functions", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		if _, r := runTurn(t, s, "rawcall 1 echo\nsleep"); r.Outcome != timeline.OutcomeEnded {
			t.Errorf("the turn ended %s: %q", r.Outcome, outputText(r.Events))
		}
	})

	t.Run("a notice says that the worker cannot call functions", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{NoCalls: true}))
		if err := s.SetFunctions(newTextFunction("echo", func(_ context.Context, text string) (any, error) { return text, nil })); err != nil {
			t.Fatal(err)
		}
		waitUntilReady(t, s)
		for e := range s.Events(t.Context(), 0) {
			if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "cannot call functions") {
				return
			}
		}
		t.Error("got no notice")
	})

	t.Run("a reply names the running calls", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		started := make(chan bool)
		err := s.SetFunctions(newTextFunction("slow", func(ctx context.Context, _ string) (any, error) {
			started <- true
			<-started
			return "done", nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		waitUntilReady(t, s)
		before := time.Now()
		turn, err := s.Submit(t.Context(), "call slow x")
		if err != nil {
			t.Fatal(err)
		}
		<-started
		r, err := s.Wait(t.Context(), turn, &session.WaitOptions{Poll: true})
		if err != nil || len(r.PendingCalls) != 1 || r.PendingCalls[0].Name != "slow" || r.PendingCalls[0].Running != 1 || r.PendingCalls[0].Since.Before(before) {
			t.Errorf("got pending calls %+v, %v", r.PendingCalls, err)
		}
		started <- true
		if r, err = s.Wait(t.Context(), turn, nil); err != nil || len(r.PendingCalls) != 0 {
			t.Errorf("after the call: got pending calls %+v, %v", r.PendingCalls, err)
		}
	})

	t.Run("an unknown name is answered with similar ones", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		var list []supervisor.Function
		for _, name := range []string{"aaa", "bbb", "get_page", "search_issues", "search_pages", "zzz"} {
			list = append(list, newTextFunction(name, func(_ context.Context, text string) (any, error) { return text, nil }))
		}
		if err := s.SetFunctions(list...); err != nil {
			t.Fatal(err)
		}
		waitUntilReady(t, s)
		if _, r := runTurn(t, s, "call search_isues x"); !strings.Contains(outputText(r.Events), "unknown function search_isues: the host offers search_issues, search_pages, ") {
			t.Errorf("got the error %q", outputText(r.Events))
		}
	})
}

// exitReasons returns the reasons for which workers ended.
func exitReasons(events []timeline.Event) (reasons []string) {
	for _, e := range events {
		if b, ok := e.Body.(timeline.WorkerExited); ok {
			reasons = append(reasons, b.Reason)
		}
	}
	return reasons
}

func TestFunctionCall_LargeResults(t *testing.T) {
	const size = 20 << 20
	before := runtime.NumGoroutine()
	s := openSession(t, nil, fakeSpec(nil))
	err := s.SetFunctions(
		supervisor.Function{Name: "large", Call: func(context.Context, map[string]any) (any, error) { return make([]byte, size), nil }},
		newTextFunction("echo", func(_ context.Context, text string) (any, error) { return text, nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	waitUntilReady(t, s)
	// The results, 200 MiB in total, exceed what the channel buffers for its reader.
	if _, r := runTurn(t, s, "rawcall 1001 large\nrawcall 1002 large\nrawcall 1003 large\nrawcall 1004 large\nrawcall 1005 large\n"+
		"rawcall 1006 large\nrawcall 1007 large\nrawcall 1008 large\nrawcall 1009 large\nrawcall 1010 large\ncall echo still"); !strings.HasPrefix(outputText(r.Events), "still\n") {
		t.Errorf("the turn ended %s: %.200q", r.Outcome, outputText(r.Events))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wait.Until(t, fmt.Sprintf("there are %d goroutines, as before", before), func() bool { return runtime.NumGoroutine() <= before+2 })
}
