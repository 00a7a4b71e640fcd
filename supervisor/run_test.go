package supervisor_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("leaves a permission to the user", func(t *testing.T) {
		t.Parallel()
		ask := newTextFunction("delete", func(ctx context.Context, text string) (any, error) {
			if !supervisor.CallerOf(ctx).AskPermission(ctx, text, false) {
				return nil, errors.New("refused")
			}
			return "allowed", nil
		})
		s := openSession(t, &supervisor.Options{Functions: []supervisor.Function{ask}}, fakeSpec(nil))
		r, err := session.Run(deadlineContext(t), s, "call delete all", &session.RunOptions{
			Answer: func(context.Context, session.InputRequest) (session.Input, error) {
				t.Error("the program is asked")
				return session.Input{EOF: true}, nil
			},
			OnEvent: func(e timeline.Event) {
				if q, ok := e.Body.(timeline.InputRequested); ok {
					if err := s.AnswerPermission(t.Context(), q.PermissionID, true); err != nil {
						t.Error(err)
					}
				}
			},
		})
		if err != nil || r.Outcome != timeline.OutcomeOK || !strings.Contains(r.Text, "allowed") {
			t.Errorf("got %+v, %v", r, err)
		}
	})

	t.Run("refuses an input that answered a prompt of the start-up", func(t *testing.T) {
		t.Parallel()
		// With a writer, Run does not wait for the beginning, so that it reads the notice as an event.
		for _, o := range []*session.RunOptions{nil, {Stdout: io.Discard}} {
			s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "prompt"}))
			prompt, err := s.Wait(deadlineContext(t), 0, nil)
			if err != nil || prompt.InputRequest == nil {
				t.Fatalf("got %+v, %v", prompt, err)
			}
			if _, err := s.Answer(t.Context(), prompt.InputRequest.ID, session.Input{Data: []byte("me\n")}); err != nil {
				t.Fatal(err)
			}
			if r, err := session.Run(deadlineContext(t), s, "exit 7", &session.RunOptions{Queue: true}); err != nil || !r.Error.Ended {
				t.Fatalf("got %+v, %v", r, err)
			}
			r, err := session.Run(deadlineContext(t), s, "print no", o) // starts the next worker, so it comes before the prompt
			if session.KindOf(err) != session.KindStale || !strings.Contains(err.Error(), "start-up") {
				t.Fatalf("got %+v, %v", r, err)
			}
			if r, err := session.Run(deadlineContext(t), s, "print yes", &session.RunOptions{Queue: true}); err != nil || r.Text != "yes\n" {
				t.Errorf("got %+v, %v", r, err)
			}
		}
	})

	t.Run("says why a worker never became ready", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "exit 7"}))
		r, err := session.Run(deadlineContext(t), s, "print no", nil)
		if err != nil || r.Outcome != timeline.OutcomeEnded || !r.Error.Ended || !strings.Contains(r.Error.Message, "exit status 7") || r.Text != "" {
			t.Errorf("got %+v, %v", r, err)
		}
	})

	t.Run("leaves no goroutine, and no memory but the events", func(t *testing.T) {
		t.Parallel()
		const n = 400
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapObjects)
		}
		s := openSession(t, nil, fakeSpec(nil))
		ctx := deadlineContext(t)
		growth := func(do func()) int64 {
			do()
			before := heap()
			for range n {
				do()
			}
			return (heap() - before) / n
		}
		byTurn := func() {
			turn, err := s.Submit(ctx, "result 2")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Wait(ctx, turn, nil); err != nil {
				t.Fatal(err)
			}
		}
		byRun := func() {
			if r, err := session.Run(ctx, s, "result 2", &session.RunOptions{OnEvent: func(timeline.Event) {}}); err != nil || r.Value != "2" {
				t.Fatalf("got %+v, %v", r, err)
			}
		}
		// Other tests allocate at the same time. A leak is there in each measurement.
		var turns, runs int64
		for range 8 {
			if turns, runs = growth(byTurn), growth(byRun); runs <= turns+8 {
				break
			}
		}
		if runs > turns+8 {
			t.Errorf("a run keeps %d objects, and a turn by Submit and Wait %d", runs, turns)
		}
		if stack := goroutinesOf("session.(*codeRun)", "session.(*turnStopper)"); stack != "" {
			t.Errorf("a goroutine is left:\n%s", stack)
		}
	})
}

// goroutinesOf returns the stacks of goroutines that run one of these functions for this test's session.
func goroutinesOf(names ...string) string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for _, stack := range strings.Split(string(all), "\n\n") {
		for _, name := range names {
			if strings.Contains(stack, name) && strings.Contains(stack, "leaves_no_goroutine") {
				return stack
			}
		}
	}
	return ""
}

func TestQueuePlace(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	ctx := deadlineContext(t)
	if r, err := session.Run(ctx, s, "print ready", nil); err != nil || r.Text != "ready\n" {
		t.Fatalf("got %+v, %v", r, err)
	}
	first, err := s.JoinQueue()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(ctx); err != nil {
		t.Fatal(err)
	}

	t.Run("keeps the idle session for its holder", func(t *testing.T) {
		_, err := s.Submit(ctx, "print no")
		if !errors.Is(err, session.ErrBusy) || !strings.Contains(err.Error(), "1 input waited before this one") {
			t.Errorf("got %v", err)
		}
		second, err := s.JoinQueue()
		if err != nil {
			t.Fatal(err)
		}
		defer second.Leave()
		if _, err := second.Submit(ctx, "print no", supervisor.QueuedInput{}); !errors.Is(err, session.ErrBusy) {
			t.Errorf("the second place: got %v", err)
		}
	})

	t.Run("is free once its input has started", func(t *testing.T) {
		turn, err := first.Submit(ctx, "print yes", supervisor.QueuedInput{Author: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Wait(ctx, turn, nil); err != nil || r.Outcome != timeline.OutcomeOK {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err := session.Run(ctx, s, "print next", nil); err != nil || r.Text != "next\n" {
			t.Errorf("got %+v, %v", r, err)
		}
		first.Leave() // once more
	})
}
