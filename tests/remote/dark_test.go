//go:build linux

package remote

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

func TestSilentConnection(t *testing.T) {
	// A stopped prefix is a pulled cable, or a laptop that sleeps: nothing comes, and nothing ends.
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
				t.Error("somebody else writes while the keyboard is held over a dark link")
			}
			wantNoError(t, runCode(t, s, "assert x == 41"))
			_, read, err := s.ReadAs(t.Context(), "agent")
			wantNoError(t, err)
			if read < now.LastSeq {
				t.Errorf("it has read up to %d, and was at %d", read, now.LastSeq)
			}
		})
	})

	// The connections that were made are those that have ended, but for the one that is used.
	t.Run("leaves no dead connection at the daemon", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			for range 3 {
				wantNoError(t, runCode(t, s, "1"))
				w.signalPrefixes(syscall.SIGSTOP)
			}
			wantNoError(t, runCode(t, s, "1"))
			waitEventually(t, "one connection is left on either side", func() bool { return len(w.farProcesses()) == 1 && len(w.prefixGroups()) == 1 })
		})
	})
}

// Nothing is wanted here, so nobody connects again: the connection itself outlives the minute, on
// both sides.
func TestSilentConnection_Idle(t *testing.T) {
	t.Parallel()
	w := startEngine(t, "ssh").newRemote(t)
	d := w.newDialer()
	d.KeepAlive = 5 * time.Minute // as for commands
	l := client.New(d, nil)
	t.Cleanup(l.Close)
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
		t.Fatalf("of one connection there are the processes %v", before)
	}
	<-time.After(time.Minute) // that is what it is about
	other := w.engine.directClient(t).Session(s.Name())
	if err := runCode(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("somebody else writes while the keyboard is held over a dark link")
	}
	w.signalPrefixes(syscall.SIGCONT)
	wantNoError(t, runCode(t, s, "assert x == 41"))
	_, read, err := s.ReadAs(t.Context(), "agent")
	wantNoError(t, err)
	if read < now.LastSeq {
		t.Errorf("it has read up to %d, and was at %d", read, now.LastSeq)
	}
	if after := w.prefixGroups(); !slices.Equal(before, after) {
		t.Errorf("it has connected again: %v, and %v before", after, before)
	}
	if err := runCode(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("the keyboard is lost")
	}
}
