package sessiontest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// waitTimeout bounds each wait for a real process.
const waitTimeout = 60 * time.Second

// withTimeout returns a context with a timeout that only a hang reaches.
func withTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

func submitCode(t *testing.T, s session.Session, code string) uint64 {
	t.Helper()
	ctx := withTimeout(t)
	if _, err := s.Wait(ctx, 0, nil); err != nil { // the start-up
		t.Fatal(err)
	}
	turn, err := s.Submit(ctx, code)
	if err != nil {
		t.Fatalf("submit %q: %v", code, err)
	}
	return turn
}

func waitTurn(t *testing.T, s session.Session, turn uint64) session.Reply {
	t.Helper()
	r, err := s.Wait(withTimeout(t), turn, nil)
	if err != nil {
		t.Fatalf("turn %d: %v", turn, err)
	}
	return r
}

func runCode(t *testing.T, s session.Session, code string) session.Reply {
	t.Helper()
	return waitTurn(t, s, submitCode(t, s, code))
}

func readInfo(t *testing.T, s session.Session) session.Info {
	t.Helper()
	i, err := s.Info(withTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// waitEvent waits for an event that satisfies ok.
func waitEvent(t *testing.T, s session.Session, after timeline.Seq, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	for e, err := range s.Events(withTimeout(t), after) {
		if err != nil {
			t.Fatalf("the event did not arrive: %v", err)
		}
		if ok(e) {
			return e
		}
	}
	t.Fatal("the events ended without an error")
	return timeline.Event{}
}

func hasText(text string) func(timeline.Event) bool {
	return func(e timeline.Event) bool {
		b, ok := e.Body.(timeline.Text)
		return ok && strings.Contains(string(b.Data), text)
	}
}
