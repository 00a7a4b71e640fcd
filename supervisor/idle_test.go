package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// runIdle runs a test with a ready session that is closed after an hour without use.
func runIdle(t *testing.T, test func(*testing.T, *Session, *fakeProcess)) {
	t.Helper()
	runWithFakeWorker(t, &Options{SessionIdleTimeout: time.Hour}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.sendReady()
		test(t, s, p)
	})
}

// wantUnusedFor checks that the session stays open for almost an hour, and no longer.
func wantUnusedFor(t *testing.T, s *Session, p *fakeProcess) {
	t.Helper()
	p.advanceTime(time.Hour - 1)
	if s.IsClosed() {
		t.Fatal("closed too early")
	}
	p.advanceTime(1)
	if !s.IsClosed() {
		t.Error("not closed after an hour without use")
	}
}

const unusedReason = "the session was closed, because it was unused for 1h0m0s"

func TestSessionIdleTimeout(t *testing.T) {
	t.Run("closes an unused session and says why", func(t *testing.T) {
		runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
			var last timeline.Event
			followed := make(chan struct{})
			go func() {
				defer close(followed)
				for e := range s.Log().Follow(t.Context(), 0) {
					if _, ok := e.Body.(timeline.Notice); ok {
						last = e
					}
				}
			}()
			wantUnusedFor(t, s, p)
			<-followed // Close has closed the timeline
			if n, _ := last.Body.(timeline.Notice); n.Message != unusedReason {
				t.Errorf("got notice %q", n.Message)
			}
			_, submitted := s.Submit(t.Context(), "1")
			_, answered := s.Answer(t.Context(), 1, session.Input{})
			_, interrupted := s.Interrupt(t.Context(), 0)
			_, typed := s.Type(t.Context(), session.Keys{Text: "x"})
			var read error
			for _, read = range s.Events(t.Context(), s.Log().LastSeq()) {
			}
			for call, err := range map[string]error{"Submit": submitted, "Answer": answered, "Interrupt": interrupted, "Type": typed, "Reset": s.Reset(t.Context()), "Events": read} {
				if !errors.Is(err, session.ErrClosed) || err.Error() != unusedReason {
					t.Errorf("%s: got %v", call, err)
				}
			}
			p.advanceTime(time.Minute)
			if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory is left: %v", err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("never closes a session without a timeout", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			p.advanceTime(10_000 * time.Hour)
			if s.IsClosed() {
				t.Error("it was closed")
			}
		})
	})

	t.Run("closes a session whose worker has ended", func(t *testing.T) {
		runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
			p.advanceTime(30 * time.Minute)
			p.exitWith(monitorproto.Exit{Code: 1})
			synctest.Wait()
			wantUnusedFor(t, s, p)
		})
	})

	t.Run("rejects a negative timeout", func(t *testing.T) {
		if _, err := New(&Options{Dir: t.TempDir(), SessionIdleTimeout: -1}); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSessionIdleTimeout_Use(t *testing.T) {
	use := map[string]func(t *testing.T, s *Session) error{
		"Wait": func(t *testing.T, s *Session) error { _, err := s.Wait(t.Context(), 0, nil); return err },
		"Read": func(t *testing.T, s *Session) error { _, err := s.Read(t.Context(), session.ReadQuery{}); return err },
		"TurnSummaries": func(t *testing.T, s *Session) error {
			_, err := s.TurnSummaries(t.Context(), session.TurnSummariesQuery{})
			return err
		},
		"Search": func(t *testing.T, s *Session) error {
			_, err := s.Search(t.Context(), session.SearchQuery{Text: "x"})
			return err
		},
		"Files": func(t *testing.T, s *Session) error { _, err := s.Files(t.Context(), session.OwnFiles); return err },
	}
	for name, call := range use {
		t.Run(name+" restarts the time", func(t *testing.T) {
			runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
				for range 3 {
					p.advanceTime(50 * time.Minute)
					if err := call(t, s); err != nil {
						t.Fatal(err)
					}
				}
				wantUnusedFor(t, s, p)
			})
		})
	}

	t.Run("a look at the session does not restart the time", func(t *testing.T) {
		runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
			for range 6 {
				p.advanceTime(10*time.Minute - 1)
				_, _ = s.Info(t.Context())
				_ = s.State()
				_ = s.SetFunctions()
				_, _, _ = s.Tick()
				_, _ = s.Interrupt(t.Context(), 0)
				_ = s.Log().EventsSince(0)
				_ = s.Resize(t.Context(), session.Size{Rows: 10, Cols: 10})
			}
			if s.IsClosed() {
				t.Fatal("closed too early")
			}
			if p.advanceTime(6); !s.IsClosed() {
				t.Error("it is still open")
			}
		})
	})

	t.Run("a turn pauses the time, also while it waits for input", func(t *testing.T) {
		runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := submitTurn(t, s, "loop")
			p.advanceTime(5 * time.Hour)
			p.sendFrames(ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			p.advanceTime(5 * time.Hour)
			if s.State() != session.StateWaiting {
				t.Fatalf("it is %v", s.State())
			}
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
			wantUnusedFor(t, s, p)
		})
	})

	t.Run("a call under way pauses the time", func(t *testing.T) {
		runIdle(t, func(t *testing.T, s *Session, p *fakeProcess) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range s.Events(ctx, 0) {
				}
			}()
			p.advanceTime(5 * time.Hour)
			cancel()
			<-ended
			wantUnusedFor(t, s, p)
		})
	})
}

// A call that comes as the time ends either uses the session or learns why it is closed.
func TestSessionIdleTimeout_Race(t *testing.T) {
	accepted, refused := 0, 0
	for range 200 {
		runIdle(t, func(t *testing.T, s *Session, _ *fakeProcess) {
			<-time.After(time.Hour) // like the alarm of the session
			turn, err := s.Submit(t.Context(), "1")
			synctest.Wait()
			switch {
			case err == nil && s.ActiveTurn() == turn && !s.IsClosed():
				accepted++
			case errors.Is(err, session.ErrClosed) && err.Error() == unusedReason && s.IsClosed():
				refused++
			default:
				t.Fatalf("turn %d, %v, closed: %v", turn, err, s.IsClosed())
			}
		})
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
}

// The supervisor's Close waits for a session that is just being closed because of its time.
func TestSessionIdleTimeout_SupervisorCloses(t *testing.T) {
	for name, delay := range map[string]time.Duration{"before it": -time.Minute, "at the same time": 0, "during it": 100 * ms, "after it": time.Minute} {
		t.Run(name, func(t *testing.T) {
			runWithFakeWorker(t, &Options{SessionIdleTimeout: time.Hour}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				t.Cleanup(func() { // between the supervisor's Close and the end of the directory
					if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("its directory is left: %v", err)
					}
				})
				p.sendReady()
				<-time.After(time.Hour + delay)
			})
		})
	}
}
