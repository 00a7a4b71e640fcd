// Package sessionkit drives sessions of a real runtime in tests, turn by turn. Tests use it to
// check the guarantees for programs that embed the supervisor. Everything goes through the public
// API. The package itself checks only that events arrive in time.
//
//	r := sessionkit.OpenSession(t, spec)
//	r.RunCode(t, "input('a? ')", "b").WantTranscript(t, `a? [wait "a? "][line "b"]'b'`+"\n")
//
// It starts no goroutines; everything happens in the test's goroutine.
package sessionkit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// Timeout bounds every wait on a real process. A test that comes near it has failed.
const Timeout = 60 * time.Second

// EndOfFile is an answer that means the end of the file.
const EndOfFile = "\x04 end of file"

// TimeoutContext returns a context that ends after Timeout, or with the test.
func TimeoutContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// A TestSession is a session together with the position up to which its events were read.
type TestSession struct {
	*supervisor.Session
	lastSeen timeline.Seq
}

// OpenSession opens a session "main" and waits for its start-up, which must not request input. It
// is closed with the test.
func OpenSession(t testing.TB, spec workers.Spec) *TestSession {
	t.Helper()
	r := LaunchSession(t, spec)
	r.WaitUntilReady(t)
	return r
}

// LaunchSession is OpenSession without waiting.
func LaunchSession(t testing.TB, spec workers.Spec) *TestSession {
	t.Helper()
	return LaunchSessionWith(t, &supervisor.Options{Dir: t.TempDir()}, spec)
}

// LaunchSessionWith is LaunchSession with options for the supervisor.
func LaunchSessionWith(t testing.TB, o *supervisor.Options, spec workers.Spec) *TestSession {
	t.Helper()
	if spec.Sandbox == nil {
		spec.Sandbox = sandboxcheck.Sandbox()
	}
	sup, err := supervisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := sup.Open(t.Context(), "main", spec)
	if err != nil {
		t.Fatal(err)
	}
	return &TestSession{Session: s}
}

// WaitUntilReady waits until the session is ready for input.
func (s *TestSession) WaitUntilReady(t testing.TB) {
	t.Helper()
	reply, err := s.Wait(TimeoutContext(t), 0, nil)
	if err != nil || reply.State != session.StateIdle {
		t.Fatalf("the session is %s, want idle: %v %q", reply.State, err, reply.Text())
	}
	s.lastSeen = reply.Next
}

// RestartWorker gives later tests a working worker.
func (s *TestSession) RestartWorker(t testing.TB) {
	t.Helper()
	if err := s.Reset(TimeoutContext(t)); err != nil {
		t.Fatal(err)
	}
	s.WaitUntilReady(t)
}

// RunCode runs code; each input request gets the next answer, as a line. The result has no outcome
// if the turn does not end in time, or requests more input.
func (s *TestSession) RunCode(t testing.TB, code string, answers ...string) TurnResult {
	t.Helper()
	return s.FinishTurn(t, s.StartTurn(t, code), answers...)
}

// RunCodeThatMayExit is RunCode for code that may exit the worker.
func (s *TestSession) RunCodeThatMayExit(t testing.TB, code string) TurnResult {
	t.Helper()
	turn, err := s.SubmitMayExit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %.100q: %v", code, err)
	}
	return s.FinishTurn(t, turn)
}

// WantOutput runs code and fails the test unless it prints exactly this. The transcript of the turn
// may contain more, such as the line about a limit, which is added when the processes are checked.
func (s *TestSession) WantOutput(t testing.TB, code, want string) {
	t.Helper()
	res := s.RunCode(t, code)
	if got := res.OutputText(); got != want {
		t.Errorf("%.300s\ngot  %.2000q (%s),\nwant %.2000q", code, got, res.Outcome, want)
	}
}

// StartTurn starts a turn.
func (s *TestSession) StartTurn(t testing.TB, code string) uint64 {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %.100q: %v", code, err)
	}
	return turn
}

// FinishTurn is RunCode for a turn that was started before.
func (s *TestSession) FinishTurn(t testing.TB, turn uint64, answers ...string) TurnResult {
	t.Helper()
	return s.followTurn(t, turn, answers, false)
}

// WaitTurnEnd is FinishTurn for a turn that something other than an answer ends while it waits for
// input.
func (s *TestSession) WaitTurnEnd(t testing.TB, turn uint64, answers ...string) TurnResult {
	t.Helper()
	return s.followTurn(t, turn, answers, true)
}

// followTurn reads events until the turn has ended. Unless wait is set, an input request without an
// answer also ends it.
func (s *TestSession) followTurn(t testing.TB, turn uint64, answers []string, wait bool) TurnResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var res TurnResult
	for e := range s.Events(ctx, s.lastSeen) {
		s.lastSeen = e.Seq
		res.Events = append(res.Events, e)
		switch b := e.Body.(type) {
		case timeline.InputRequested:
			res.InputRequests++
			if len(answers) == 0 && wait {
				continue
			}
			if len(answers) == 0 {
				return res
			}
			in := session.Input{Data: []byte(answers[0] + "\n")}
			if answers[0] == EndOfFile {
				in = session.Input{EOF: true}
			}
			switch _, err := s.Answer(ctx, e.Seq, in); {
			case errors.Is(err, session.ErrStale): // an interrupt has ended it in the meantime
			case err != nil:
				t.Errorf("answer: %v", err)
			default:
				answers = answers[1:]
			}
		case timeline.TurnEnded:
			if e.Turn != turn {
				t.Errorf("turn %d ended, want turn %d", e.Turn, turn)
			}
			res.Outcome, res.Failure = string(b.Outcome), b.Name
			if b.Outcome != timeline.OutcomeEnded {
				return res
			}
		case timeline.WorkerExited:
			res.WorkerExit = &b
			return res
		}
	}
	return res
}

// SessionInfo describes the session.
func SessionInfo(r *TestSession) session.Info {
	i, _ := r.Session.Info(context.Background()) // a session in this process returns no error
	return i
}

// WaitEvent reads events until one satisfies ok, and returns that one. It answers no input requests.
func (s *TestSession) WaitEvent(t testing.TB, what string, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var res TurnResult
	for e := range s.Events(ctx, s.lastSeen) {
		s.lastSeen = e.Seq
		res.Events = append(res.Events, e)
		if ok(e) {
			return e
		}
	}
	t.Fatalf("no event %s: state %s, %.2000q", what, s.State(), res.Transcript())
	return timeline.Event{}
}

// InterruptTurn interrupts a turn and returns the result, even if that takes a busy machine longer
// than Interrupt waits. It reads no events.
func (s *TestSession) InterruptTurn(t testing.TB, turn uint64) session.InterruptResult {
	t.Helper()
	got, err := s.Interrupt(t.Context(), turn)
	if err != nil {
		t.Errorf("the interrupt led to %q, %v", got, err)
	}
	if got != session.InterruptPending {
		return got
	}
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	for e := range s.Events(ctx, s.lastSeen) {
		switch e.Body.(type) {
		case timeline.TurnEnded:
			return session.InterruptIdle
		case timeline.InputRequested:
			return session.InterruptWaiting
		}
	}
	return got
}

// IsText returns a condition for WaitEvent: the text of the events that it was given contains want.
func IsText(want string) func(timeline.Event) bool {
	var got strings.Builder
	return func(e timeline.Event) bool {
		if b, ok := e.Body.(timeline.Text); ok {
			got.Write(b.Data)
		}
		return strings.Contains(got.String(), want)
	}
}

// IsInputRequest is a condition for WaitEvent: an input request.
func IsInputRequest(e timeline.Event) bool {
	_, ok := e.Body.(timeline.InputRequested)
	return ok
}
