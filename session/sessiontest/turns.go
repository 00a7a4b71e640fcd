package sessiontest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func testTurnEnds(t *testing.T, s session.Session) {
	r := runCode(t, s, "print hello")
	if r.Text() != "hello" && r.Text() != "hello\n" {
		t.Errorf("got %q", r.Text())
	}
	if r.Turn != 1 || r.Outcome != timeline.OutcomeOK || r.State != session.StateIdle || r.Generation != 1 || r.OutputBytes != 6 {
		t.Errorf("got %+v", r)
	}
	if r := runCode(t, s, "error ValueError bad"); r.Outcome != timeline.OutcomeError {
		t.Errorf("got %+v", r)
	}
	if i := readInfo(t, s); i.Name != s.Name() || i.State != session.StateIdle || i.Turn != 2 || i.PID == 0 {
		t.Errorf("got %+v", i)
	}
}

func testTurnNumbers(t *testing.T, s session.Session) {
	first, second := submitCode(t, s, "print one"), uint64(0)
	waitTurn(t, s, first)
	second = submitCode(t, s, "print two")
	waitTurn(t, s, second)
	if second <= first {
		t.Errorf("turn %d came after turn %d", second, first)
	}
	for turn, text := range map[uint64]string{first: "one", second: "two"} {
		if r := waitTurn(t, s, turn); r.Turn != turn || r.Outcome != timeline.OutcomeOK || !strings.Contains(r.Text(), text) {
			t.Errorf("turn %d: got %+v", turn, r)
		}
	}
	if _, err := s.Wait(withTimeout(t), second+100, nil); !errors.Is(err, session.ErrStale) {
		t.Errorf("a turn that never existed: got %v", err)
	}
}

func testBusy(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	_, err := s.Submit(withTimeout(t), "print no")
	refused, ok := errors.AsType[*session.Error](err)
	if !errors.Is(err, session.ErrBusy) || !ok || refused.Turn != turn || refused.State == nil || *refused.State != session.StateRunning {
		t.Errorf("got %v", err)
	}
	if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
		t.Error(err)
	}
	if r := waitTurn(t, s, turn); strings.Contains(r.Text(), "no") {
		t.Errorf("got %q", r.Text())
	}
}

func testInputRequest(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "wait name? \nprint bye")
	r := waitTurn(t, s, turn)
	if r.State != session.StateWaiting || r.InputRequest == nil || r.InputRequest.Prompt != "name? " || r.InputRequest.Turn != turn || r.InputRequest.Kind != timeline.InputKindLine {
		t.Fatalf("got %+v, %+v", r, r.InputRequest)
	}
	_, err := s.Submit(withTimeout(t), "print no")
	if refused, ok := errors.AsType[*session.Error](err); !errors.Is(err, session.ErrWaiting) || !ok || refused.InputRequest == nil || refused.InputRequest.ID != r.InputRequest.ID {
		t.Errorf("submit while it waits: got %v", err)
	}
	again, err := s.Wait(withTimeout(t), 0, &session.WaitOptions{Poll: true})
	if err != nil || again.InputRequest == nil || *again.InputRequest != *r.InputRequest {
		t.Errorf("a poll: got %+v, %v", again.InputRequest, err)
	}
	if i := readInfo(t, s); i.InputRequest == nil || i.InputRequest.ID != r.InputRequest.ID {
		t.Errorf("info: got %+v", i.InputRequest)
	}
	fed, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ada\n")})
	if err != nil || fed != turn {
		t.Fatalf("got turn %d, %v", fed, err)
	}
	if end := waitTurn(t, s, turn); end.Outcome != timeline.OutcomeOK || !strings.Contains(end.Text(), "Ada") {
		t.Errorf("got %+v", end)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("late\n")}); !errors.Is(err, session.ErrStale) {
		t.Errorf("a late answer: got %v", err)
	}
}

func testEndOfFile(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "all everything\nprint end")
	r := waitTurn(t, s, turn)
	if r.InputRequest == nil {
		t.Fatalf("got %+v", r)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("a\nb"), EOF: true}); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeOK || !strings.Contains(r.Text(), "end") {
		t.Errorf("got %+v %q", r, r.Text())
	}
	turn = submitCode(t, s, "wait a? \nwait b? ")
	r = waitTurn(t, s, turn)
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("1\n2\n")}); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeOK {
		t.Errorf("the second line did not reach the second input request: %+v", r)
	}
}

func testInterrupt(t *testing.T, s session.Session) {
	if result, err := s.Interrupt(withTimeout(t), 0); err == nil && readInfo(t, s).State == session.StateIdle && result != session.InterruptNotRunning && result != session.InterruptIdle {
		t.Errorf("without a turn: got %q", result)
	}
	for _, code := range []string{"sleep", "wait name? "} {
		turn := submitCode(t, s, "print up\n"+code)
		waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Turn == turn && hasText("up")(e) })
		for _, number := range []uint64{turn, 0} { // the second has no effect
			if _, err := s.Interrupt(withTimeout(t), number); err != nil {
				t.Error(err)
			}
		}
		if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeInterrupted {
			t.Errorf("%s: got %+v", code, r)
		}
		next := submitCode(t, s, "sleep")
		if result, err := s.Interrupt(withTimeout(t), turn); err != nil || result != session.InterruptStale {
			t.Errorf("an old turn: got %q, %v", result, err)
		}
		if r, err := s.Wait(withTimeout(t), next, &session.WaitOptions{Poll: true}); err != nil || r.State != session.StateRunning {
			t.Errorf("the next turn was hit: %+v, %v", r, err)
		}
		if _, err := s.Interrupt(withTimeout(t), 0); err != nil {
			t.Error(err)
		}
		waitTurn(t, s, next)
	}
}

func testAuthors(t *testing.T, s session.Session) {
	ada, ben := s.As("ada"), s.As("ben")
	if ada.Author() != "ada" || ada.Name() != s.Name() {
		t.Errorf("got %q of %q", ada.Author(), ada.Name())
	}
	turn := submitCode(t, ada, "wait name? \nprint up\nsleep")
	r := waitTurn(t, s, turn)
	if _, err := ben.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ben\n")}); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, s, 0, hasText("up"))
	if _, err := ben.Interrupt(withTimeout(t), turn); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, s, turn)
	all, err := s.Wait(withTimeout(t), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all.Events {
		switch b := e.Body.(type) {
		case timeline.TurnStarted:
			got = append(got, "started by "+b.Author)
		case timeline.InputLine:
			got = append(got, b.Text+" by "+b.Author)
		case timeline.Interrupt:
			got = append(got, "interrupted by "+b.Author)
		}
	}
	if want := []string{"started by ada", "Ben by ben", "interrupted by ben"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testPollAndCursor(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print first\nwait go? \nprint second")
	waitEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.InputRequested); return ok })
	r, err := s.Wait(withTimeout(t), turn, session.WaitAtMost(time.Minute))
	if err != nil || !strings.Contains(r.Text(), "first") || r.Outcome != "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	rest, err := s.Wait(withTimeout(t), turn, &session.WaitOptions{After: r.Next})
	if err != nil || strings.Contains(rest.Text(), "first") || !strings.Contains(rest.Text(), "second") {
		t.Errorf("got %q, %v", rest.Text(), err)
	}
	slow := submitCode(t, s, "sleep")
	if r, err := s.Wait(withTimeout(t), slow, session.WaitAtMost(20*time.Millisecond)); err != nil || r.Outcome != "" || r.State != session.StateRunning {
		t.Errorf("got %+v, %v", r, err)
	}
	_, _ = s.Interrupt(withTimeout(t), slow)
	waitTurn(t, s, slow)
}

func testContexts(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Wait(ctx, turn, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if i := readInfo(t, s); i.State != session.StateRunning || i.Turn != turn {
		t.Errorf("the turn is not running: %+v", i)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Submit(ended, "print no"); err == nil {
		t.Error("Submit succeeded with an ended context")
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}

func testEvents(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	next := timeline.Seq(1)
	for e, err := range s.Events(withTimeout(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next {
			t.Fatalf("got event %d, want %d", e.Seq, next)
		}
		next++
		if b, ok := e.Body.(timeline.TurnEnded); ok && b.Outcome != "" {
			if e.Turn == 2 {
				break
			}
			if _, err := s.Submit(withTimeout(t), "print two"); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range s.Events(ctx, next-1) { // no more events arrive, so only the context ends this
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", e, err)
		}
	}
}

func testEventsEnd(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	var last error
	ended := make(chan struct{})
	began := make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for _, err := range s.Events(withTimeout(t), 0) {
			last = err
			select {
			case began <- struct{}{}:
			default:
			}
		}
	}()
	<-began
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !errors.Is(last, session.ErrClosed) {
		t.Errorf("got %v", last)
	}
}

func testWorkerExit(t *testing.T, s session.Session) {
	r := runCode(t, s, "exit 3")
	if r.Outcome != timeline.OutcomeEnded {
		t.Errorf("got %+v", r)
	}
	ended := waitEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.WorkerExited); return ok })
	if b := ended.Body.(timeline.WorkerExited); b.ExitCode != 3 {
		t.Errorf("got %+v", b)
	}
	if r := runCode(t, s, "print again"); r.Generation != 2 || r.Outcome != timeline.OutcomeOK {
		t.Errorf("got %+v", r)
	}
}

func testRestartNotice(t *testing.T, s session.Session) {
	runCode(t, s, "exit 3")
	silent, err := s.As("tool").SubmitSilent(withTimeout(t), "print unseen") // whose reply no reader sees
	if err != nil {
		t.Fatal(err)
	}
	waitTurn(t, s, silent)
	for _, want := range []string{"exit status 3", ""} {
		if got := workerExitReason(runCode(t, s, "print 1")); got != want {
			t.Errorf("after an exit: got %q, want %q", got, want)
		}
	}
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"reset", ""} {
		r := runCode(t, s, "print 2")
		if got := workerExitReason(r); got != want {
			t.Errorf("after a reset: got %q, want %q", got, want)
		}
		if text := r.Text(); !strings.HasSuffix(text, "2\n") || strings.Contains(text, "[session restarted: reset") != (want != "") {
			t.Errorf("a model reads %q", text)
		}
	}
}

// workerExitReason returns why the previous worker ended, if the reply begins with that event.
func workerExitReason(r session.Reply) string {
	if end, ok := r.Events[0].Body.(timeline.WorkerExited); ok && r.Events[0].Generation < r.Generation {
		return end.Reason
	}
	return ""
}

func testReset(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeEnded {
		t.Errorf("got %+v", r)
	}
	if r := runCode(t, s, "print fresh"); r.Generation != 2 || !strings.Contains(r.Text(), "fresh") {
		t.Errorf("got %+v", r)
	}
}
