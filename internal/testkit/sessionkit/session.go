// Package drive drives sessions of a real runtime in tests, turn by turn: for the
// tests of what a program that embeds the supervisor may rely on. Everything goes
// through the public API, and nothing is judged here but that it comes in time.
//
//	r := drive.OpenSession(t, spec)
//	r.Run(t, "input('a? ')", "b").Wants(t, `a? [wait "a? "][line "b"]'b'`+"\n")
//
// It starts no goroutine; all is the test's goroutine's.
package sessionkit

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// Timeout bounds every wait on a real process. A test that gets near it has failed.
const Timeout = 60 * time.Second

// EndOfFile is an answer: the end of the file.
const EndOfFile = "\x04 end of file"

// RandomRounds is how often something random is tried: n times, or TURNSTONE_ROUNDS as
// often.
func RandomRounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("TURNSTONE_ROUNDS")); err == nil {
		return n * times
	}
	return n
}

// TimeoutContext is a context that ends with Patience, or with the test.
func TimeoutContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// A TestSession is a session, and how far its events have been read.
type TestSession struct {
	*supervisor.Session
	lastSeen timeline.Seq
}

// OpenSession opens a session "main" and waits for its start-up, which must not ask. It is
// closed with the test.
func OpenSession(t testing.TB, spec workers.Spec) *TestSession {
	t.Helper()
	r := LaunchSession(t, spec)
	r.WaitUntilReady(t)
	return r
}

// LaunchSession is Open without waiting.
func LaunchSession(t testing.TB, spec workers.Spec) *TestSession {
	t.Helper()
	return LaunchSessionWith(t, &supervisor.Options{Dir: t.TempDir()}, spec)
}

// LaunchSessionWith is Launch with a supervisor of the test's own making.
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
func (r *TestSession) WaitUntilReady(t testing.TB) {
	t.Helper()
	reply, err := r.Wait(TimeoutContext(t), 0, nil)
	if err != nil || reply.State != session.StateIdle {
		t.Fatalf("the session is %s, want idle: %v %q", reply.State, err, reply.Text())
	}
	r.lastSeen = reply.Next
}

// RestartWorker gives later tests a worker that works.
func (r *TestSession) RestartWorker(t testing.TB) {
	t.Helper()
	if err := r.Reset(TimeoutContext(t)); err != nil {
		t.Fatal(err)
	}
	r.WaitUntilReady(t)
}

// RunCode runs code; each wait gets the next of the answers, as a line. The result has
// no outcome if the turn does not end in time, or asks for more.
func (r *TestSession) RunCode(t testing.TB, code string, answers ...string) TurnResult {
	t.Helper()
	return r.FinishTurn(t, r.StartTurn(t, code), answers...)
}

// RunCodeThatMayExit is Run for code that may end the worker by an exit.
func (r *TestSession) RunCodeThatMayExit(t testing.TB, code string) TurnResult {
	t.Helper()
	turn, err := r.SubmitMayExit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %.100q: %v", code, err)
	}
	return r.FinishTurn(t, turn)
}

// StartTurn starts a turn.
func (r *TestSession) StartTurn(t testing.TB, code string) uint64 {
	t.Helper()
	turn, err := r.Submit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %.100q: %v", code, err)
	}
	return turn
}

// FinishTurn is Run for a turn that was begun.
func (r *TestSession) FinishTurn(t testing.TB, turn uint64, answers ...string) TurnResult {
	t.Helper()
	return r.followTurn(t, turn, answers, false)
}

// WaitTurnEnd is Finish for a turn that something else ends while it waits for input.
func (r *TestSession) WaitTurnEnd(t testing.TB, turn uint64, answers ...string) TurnResult {
	t.Helper()
	return r.followTurn(t, turn, answers, true)
}

// followTurn reads events until the turn has ended. Without wait, a wait without an answer is the
// end, too.
func (r *TestSession) followTurn(t testing.TB, turn uint64, answers []string, wait bool) TurnResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var res TurnResult
	for e := range r.Events(ctx, r.lastSeen) {
		r.lastSeen = e.Seq
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
			switch _, err := r.Answer(ctx, e.Seq, in); {
			case errors.Is(err, session.ErrStale): // an interrupt has ended it meanwhile
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
	i, _ := r.Session.Info(context.Background()) // one of this process makes no error
	return i
}

// WaitEvent reads events until one satisfies ok; nothing is answered meanwhile.
func (r *TestSession) WaitEvent(t testing.TB, what string, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var res TurnResult
	for e := range r.Events(ctx, r.lastSeen) {
		r.lastSeen = e.Seq
		res.Events = append(res.Events, e)
		if ok(e) {
			return e
		}
	}
	t.Fatalf("%s did not come: %s, %.2000q", what, r.State(), res.Transcript())
	return timeline.Event{}
}

// InterruptTurn interrupts a turn and says what that led to, also when that takes a
// busy machine longer than Interrupt waits. It reads no events.
func (r *TestSession) InterruptTurn(t testing.TB, turn uint64) session.InterruptResult {
	t.Helper()
	got, err := r.Interrupt(t.Context(), turn)
	if err != nil {
		t.Errorf("the interrupt led to %q, %v", got, err)
	}
	if got != session.InterruptPending {
		return got
	}
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	for e := range r.Events(ctx, r.lastSeen) {
		switch e.Body.(type) {
		case timeline.TurnEnded:
			return session.InterruptIdle
		case timeline.InputRequested:
			return session.InterruptWaiting
		}
	}
	return got
}

// IsText is for Until: this text, whole.
func IsText(want string) func(timeline.Event) bool {
	var got strings.Builder
	return func(e timeline.Event) bool {
		if b, ok := e.Body.(timeline.Text); ok {
			got.Write(b.Data)
		}
		return strings.Contains(got.String(), want)
	}
}

// IsInputRequest is for Until: a wait.
func IsInputRequest(e timeline.Event) bool {
	_, ok := e.Body.(timeline.InputRequested)
	return ok
}
