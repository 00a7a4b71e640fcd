package sessiontest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// runAndCopy submits code without waiting for the worker, and copies the turn immediately.
func runAndCopy(t *testing.T, s session.Session, code string) (string, timeline.TurnEnded) {
	t.Helper()
	turn, err := s.Submit(withTimeout(t), code)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	end, err := session.CopyOutput(withTimeout(t), s, turn, &out, &out)
	if err != nil {
		t.Errorf("%q: %v", code, err)
	}
	waitTurn(t, s, turn)
	return out.String(), end
}

func testFollowBeforeStart(t *testing.T, s session.Session) {
	hi := func(when string) {
		t.Helper()
		if text, end := runAndCopy(t, s, "print hi"); text != "hi\n" || end.Outcome != timeline.OutcomeOK {
			t.Errorf("%s: got %q, %+v", when, text, end)
		}
	}
	hi("just opened")
	hi("idle")
	runAndCopy(t, s, "exit 3")
	hi("after the worker ended")
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	hi("after a reset")
}

func testExitReason(t *testing.T, s session.Session) {
	if _, end := runAndCopy(t, s, "exit 3"); end.Outcome != timeline.OutcomeEnded || !strings.Contains(end.Message, "exit status 3") || end.Code != 3 || end.Signal != "" {
		t.Errorf("got %+v", end)
	}
	if end, ok := runCode(t, s, "exit 4").End(); !ok || !strings.Contains(end.Message, "exit status 4") || end.Code != 4 {
		t.Errorf("a reply has %+v", end)
	}
	turn := submitCode(t, s, "sleep")
	waitEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.TurnStarted); return ok && e.Turn == turn })
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if end, ok := waitTurn(t, s, turn).End(); !ok || end.Message != "reset" {
		t.Errorf("after a reset: got %+v", end)
	}
}

func testStartWithoutCallback(t *testing.T, s session.Session) {
	r, err := session.StartTurn(s, "wait name? ", nil).Wait(withTimeout(t), session.WaitAtMost(waitTimeout))
	if err != nil || r.InputRequest == nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	r, err = session.StartAnswer(s, r.InputRequest.ID, session.Input{Data: []byte("Ada\n")}, nil).Wait(withTimeout(t), session.WaitAtMost(waitTimeout))
	if err != nil || r.Outcome != timeline.OutcomeOK {
		t.Errorf("got %+v, %v", r, err)
	}
	if err := session.FollowPreparation(withTimeout(t), s, readInfo(t, s), nil); err != nil {
		t.Error(err)
	}
}
