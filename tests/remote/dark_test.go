//go:build linux

package remote

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

func TestSilentConnection(t *testing.T) {
	// A stopped prefix simulates a pulled cable or a sleeping laptop: no data arrives, and the
	// connection stays open.
	t.Run("gives the client its position and write lock back", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			s, _, err := s.ReadAs(t.Context(), "agent")
			wantNoError(t, err)
			wantNoError(t, runCode(t, s, "x = 41"))
			now, err := s.Info(t.Context())
			wantNoError(t, err)
			_, err = s.SaveReadCursor(t.Context(), now.LastSeq)
			wantNoError(t, err)
			wantNoError(t, s.TakeWriteLock(t.Context(), true))
			if w.signalPrefixes(syscall.SIGSTOP) == 0 {
				t.Fatal("nothing was stopped")
			}
			other := w.engine.directClient(t).Session(s.Name())
			if err := runCode(t, other, "x = 0"); session.KindOf(err) == "" {
				t.Error("another client has written while the silent client held the write lock")
			}
			wantNoError(t, runCode(t, s, "assert x == 41"))
			_, read, err := s.ReadAs(t.Context(), "agent")
			wantNoError(t, err)
			if read < now.LastSeq {
				t.Errorf("got position %d, want %d", read, now.LastSeq)
			}
		})
	})

	// Every connection except the one in use has ended.
	t.Run("leaves no dead connection at the daemon", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			for range 3 {
				wantNoError(t, runCode(t, s, "1"))
				w.signalPrefixes(syscall.SIGSTOP)
			}
			wantNoError(t, runCode(t, s, "1"))
			wait.Until(t, "one connection is left on each side", func() bool { return len(w.farProcesses()) == 1 && len(w.prefixGroups()) == 1 })
		})
	})
}

// No call is made here, so the client does not reconnect. The connection itself survives the
// minute, on both sides.
func TestSilentConnection_Idle(t *testing.T) {
	t.Parallel()
	w := startEngine(t, "ssh").newRemote(t)
	d := w.newDialer()
	d.KeepAlive = 5 * time.Minute // as for commands
	l := client.New(d, nil)
	t.Cleanup(func() { _ = l.Close() })
	s := w.openSession(t, l)
	s, _, err := s.ReadAs(t.Context(), "agent")
	wantNoError(t, err)
	wantNoError(t, runCode(t, s, "x = 41"))
	now, err := s.Info(t.Context())
	wantNoError(t, err)
	_, err = s.SaveReadCursor(t.Context(), now.LastSeq)
	wantNoError(t, err)
	wantNoError(t, s.TakeWriteLock(t.Context(), true))
	before := w.prefixGroups()
	if w.signalPrefixes(syscall.SIGSTOP) != 1 {
		t.Fatalf("one connection has the processes %v", before)
	}
	<-time.After(time.Minute) // the silence under test
	other := w.engine.directClient(t).Session(s.Name())
	if err := runCode(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("another client has written while the silent client held the write lock")
	}
	w.signalPrefixes(syscall.SIGCONT)
	wantNoError(t, runCode(t, s, "assert x == 41"))
	_, read, err := s.ReadAs(t.Context(), "agent")
	wantNoError(t, err)
	if read < now.LastSeq {
		t.Errorf("got position %d, want %d", read, now.LastSeq)
	}
	if after := w.prefixGroups(); !slices.Equal(before, after) {
		t.Errorf("it has reconnected: processes %v, %v before", after, before)
	}
	if err := runCode(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("the write lock was lost")
	}
}
