package supervisor_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends a sleep or a pending input request", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []ipc.InterruptMode{ipc.InterruptBySignal, ipc.InterruptBySelf} {
			for _, code := range append(terminalReaderCode, "sleep", "wait name? ") {
				t.Run(string(mode)+" "+code, func(t *testing.T) {
					s := openSession(t, nil, fakeSpec(&fakeworker.Options{Mode: mode}))
					waitUntilReady(t, s)
					turn, err := s.Submit(t.Context(), code+"\nprint not reached")
					if err != nil {
						t.Fatal(err)
					}
					if code != "sleep" {
						waitReply(t, s, turn)
					}
					interruptTurn(t, s, turn)
					if r := waitReply(t, s, turn); r.Outcome != "interrupted" || strings.Contains(outputText(r.Events), "not reached") {
						t.Errorf("got %q, %q", r.Outcome, outputText(r.Events))
					}
					// The next input is new code, never the old answer.
					if _, r := runTurn(t, s, "print clean"); outputText(r.Events) != "clean\n" {
						t.Errorf("got %q", outputText(r.Events))
					}
				})
			}
		}
	})

	t.Run("reaches only the turn that it names", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		if got, _ := s.Interrupt(t.Context(), 0); got != session.InterruptNotRunning {
			t.Errorf("idle: got %v", got)
		}
		first, _ := runTurn(t, s, "print one")
		second, err := s.Submit(t.Context(), "wait name? ")
		if err != nil {
			t.Fatal(err)
		}
		waitReply(t, s, second)
		if got, _ := s.Interrupt(t.Context(), first); got != session.InterruptStale {
			t.Errorf("former turn: got %v", got)
		}
		if r := waitReply(t, s, second); r.State != session.StateWaiting {
			t.Errorf("the stale interrupt hit the turn: %v", r.State)
		}
		_, _ = s.Interrupt(t.Context(), 0)
	})

	t.Run("drops a queued input", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "sleep"}))
		// The start-up sleeps until it is interrupted, so the input stays queued.
		turn, err := s.Submit(t.Context(), "print never")
		if err != nil {
			t.Fatal(err)
		}
		interruptTurn(t, s, turn)
		if r := waitReply(t, s, turn); r.Outcome != "interrupted" {
			t.Errorf("got %q", r.Outcome)
		}
		for sessionInfo(s).State == session.StateStarting { // the start-up can only be interrupted once the worker is ready
			if _, err := s.Interrupt(deadlineContext(t), 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, r := runTurn(t, s, "print runs"); outputText(r.Events) != "runs\n" {
			t.Errorf("got %q", outputText(r.Events))
		}
		for _, e := range s.Log().EventsSince(0) {
			if x, ok := e.Body.(timeline.Text); ok && strings.Contains(string(x.Data), "never") {
				t.Error("the dropped input ran")
			}
		}
	})

	// A caller that names no turn wants the session back, so the start-up is interrupted together
	// with the queued input.
	t.Run("without a turn, ends the start-up as well", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "sleep"}))
		if r, err := s.Wait(deadlineContext(t), 0, &session.WaitOptions{Poll: true}); err != nil || r.State != session.StateStarting {
			t.Fatalf("got %v, %v", r.State, err)
		}
		turn, err := s.Submit(t.Context(), "print never")
		if err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "there is code to interrupt", func() bool { return sessionInfo(s).Language != "" })
		if got, err := s.Interrupt(deadlineContext(t), 0); got != session.InterruptIdle || err != nil {
			t.Fatalf("got %v, %v", got, err)
		}
		if r := waitReply(t, s, turn); r.Outcome != "interrupted" {
			t.Errorf("got %q", r.Outcome)
		}
		if sessionInfo(s).State != session.StateIdle {
			t.Errorf("got %v: the start-up continues", sessionInfo(s).State)
		}
	})

	t.Run("a second one cannot be swallowed", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		turn, err := s.Submit(t.Context(), "busy")
		if err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.Text); return ok })
		if got, _ := s.Interrupt(deadlineContext(t), turn); got != session.InterruptPending {
			t.Errorf("first: got %v", got)
		}
		interruptTurn(t, s, turn)
	})

	// An interrupt that comes close to the end of a turn ends that turn or does nothing.
	t.Run("never reaches the next turn", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		rounds := 300
		if testing.Short() {
			rounds = 50
		}
		for i := range rounds {
			turn, err := s.Submit(t.Context(), "print a")
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Duration(rand.IntN(300)) * time.Microsecond)
			if _, err := s.Interrupt(deadlineContext(t), turn); err != nil {
				t.Fatal(err)
			}
			waitReply(t, s, turn)
			if _, r := runTurn(t, s, "print clean"); r.Outcome != "ok" || outputText(r.Events) != "clean\n" {
				t.Fatalf("round %d: got %q %q", i, r.Outcome, outputText(r.Events))
			}
		}
	})

	// If the previous interrupt led to a prompt, the next one leaves it, unless something was
	// answered in between.
	t.Run("leaves the prompt that the previous one led to", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		turn, r := runTurn(t, s, "shell (db) ")
		again := func() {
			t.Helper()
			if got, err := s.Interrupt(deadlineContext(t), turn); got != session.InterruptWaiting || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
			r = waitReply(t, s, turn)
		}
		again()
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("next\n")}); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, s, r.InputRequest.ID, func(e timeline.Event) bool { _, ok := e.Body.(timeline.InputRequested); return ok })
		again()
		interruptTurn(t, s, turn)
		if r := waitReply(t, s, turn); r.Outcome != "interrupted" {
			t.Errorf("got %q", r.Outcome)
		}
		var levels []int
		for _, e := range s.Log().EventsSince(0) {
			if x, ok := e.Body.(timeline.Interrupt); ok {
				levels = append(levels, x.Level)
			}
		}
		if !slices.Equal(levels, []int{1, 1, 2}) {
			t.Errorf("got levels %v, want 1 1 2", levels)
		}
	})
}

// The elapsed time of a queued input starts with the start-up.
func TestWait_QueuedInputElapsed(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "sleep"}))
	turn, err := s.Submit(t.Context(), "print never")
	if err != nil {
		t.Fatal(err)
	}
	const waited = 20 * time.Millisecond
	r, err := s.Wait(deadlineContext(t), turn, session.WaitAtMost(waited))
	if err != nil || r.State != session.StateStarting || r.Elapsed < waited {
		t.Errorf("got %v since %s, %v, want at least %s", r.State, r.Elapsed, err, waited)
	}
	interruptTurn(t, s, turn)
}
