package supervisor_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// testTimeout bounds every wait for a real process, generously.
const testTimeout = 60 * time.Second

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor:  supervisor.MonitorMain,
		Programs: []testmain.Program{fakeworker.Program, {Variable: hostEnv, Main: runHost}},
		RunAll:   sandboxcheck.RunTests,
	})
}

// hostEnv makes the test binary a program that embeds a supervisor and then does nothing, so that a
// test can kill it.
const hostEnv = "SUPERVISOR_TEST_HOST"

// recoverCommandEnv makes the test program set Options.RecoverCommand.
const recoverCommandEnv = "SUPERVISOR_TEST_RECOVER"

func runHost(dir string) (status int) {
	sup, err := supervisor.New(&supervisor.Options{Dir: dir, RecoverCommand: os.Getenv(recoverCommandEnv)})
	if err == nil && os.Getenv(recoverCommandEnv) != "" { // a session without user turns
		err = runToolSession(sup)
	}
	if err == nil {
		var s *supervisor.Session
		if s, err = sup.Open(context.Background(), "main", fakeworker.NewSpec(testexec.OwnPath(), nil)); err == nil {
			var turn uint64
			if turn, err = s.Submit(context.Background(), "fork\nfork\nprint up"); err == nil {
				_, err = s.Wait(context.Background(), turn, nil)
				s.Log().Sync()
				fmt.Println(sessionInfo(s).PID)
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it or kills this process
	return 0                             // without Close
}

// runToolSession opens a session and runs a silent turn in it.
func runToolSession(sup *supervisor.Supervisor) error {
	s, err := sup.Open(context.Background(), "tool", fakeworker.NewSpec(testexec.OwnPath(), nil))
	if err != nil {
		return err
	}
	turn, err := s.SubmitSilent(context.Background(), "print ready")
	if err != nil {
		return err
	}
	_, err = s.Wait(context.Background(), turn, nil)
	s.Log().Sync()
	return err
}

// fakeSpec returns a spec of a worker without a language. It disables the second that a program
// waits on exit under the race detector, which no real worker does.
func fakeSpec(o *fakeworker.Options) workers.Spec {
	spec := fakeworker.NewSpec(testexec.OwnPath(), o)
	spec.Env = append(spec.Env, "GORACE=atexit_sleep_ms=0")
	return spec
}

func newSupervisor(t *testing.T, o *supervisor.Options) *supervisor.Supervisor {
	t.Helper()
	if o == nil {
		o = &supervisor.Options{}
	}
	o.Dir = t.TempDir()
	sup, err := supervisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return sup
}

func openSession(t *testing.T, o *supervisor.Options, spec workers.Spec) *supervisor.Session {
	t.Helper()
	s, err := newSupervisor(t, o).Open(t.Context(), "main", spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deadlineContext returns a context that ends after testTimeout.
func deadlineContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// runTurn starts a turn and waits until it ends or asks for input.
func runTurn(t *testing.T, s *supervisor.Session, code string) (uint64, session.Reply) {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %q: %v", code, err)
	}
	return turn, waitReply(t, s, turn)
}

func waitReply(t *testing.T, s session.Session, turn uint64) session.Reply {
	t.Helper()
	r, err := s.Wait(deadlineContext(t), turn, nil)
	if err != nil {
		t.Fatalf("turn %d: %v; so far %q", turn, err, r.Text())
	}
	return r
}

// interruptTurn ends a turn. On a busy machine, the interrupt may take effect after Interrupt has
// returned.
func interruptTurn(t *testing.T, s *supervisor.Session, turn uint64) {
	t.Helper()
	got, err := s.Interrupt(deadlineContext(t), turn)
	if err == nil && got == session.InterruptPending {
		waitForEvent(t, s, 0, func(e timeline.Event) bool {
			_, over := e.Body.(timeline.TurnEnded)
			return over && e.Turn == turn
		})
		return
	}
	if err != nil || got != session.InterruptIdle {
		t.Fatalf("the interrupt led to %q, %v", got, err)
	}
}

// waitUntilReady waits until the session is ready.
func waitUntilReady(t *testing.T, s *supervisor.Session) session.Reply {
	t.Helper()
	r, err := s.Wait(deadlineContext(t), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// waitForEvent reads events after a cursor until ok returns true for one.
func waitForEvent(t *testing.T, s *supervisor.Session, after timeline.Seq, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	for e := range s.Events(deadlineContext(t), after) {
		if ok(e) {
			return e
		}
	}
	t.Fatal("the event did not arrive")
	return timeline.Event{}
}

// outputText returns the concatenated text of the events.
func outputText(events []timeline.Event) string {
	var b strings.Builder
	for _, e := range events {
		if x, ok := e.Body.(timeline.Text); ok {
			b.Write(x.Data)
		}
	}
	return b.String()
}

// findBody returns the first body of the given type.
func findBody[B timeline.Body](t *testing.T, events []timeline.Event) B {
	t.Helper()
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			return b
		}
	}
	var none B
	t.Errorf("no %T in %d events", none, len(events))
	return none
}

func noticeText(events []timeline.Event) string {
	var b strings.Builder
	for _, e := range events {
		if n, ok := e.Body.(timeline.Notice); ok {
			b.WriteString(n.Message + "\n")
		}
	}
	return b.String()
}

// sessionInfo returns the Info of a local session, which never fails.
func sessionInfo(s *supervisor.Session) session.Info {
	i, _ := s.Info(context.Background())
	return i
}
