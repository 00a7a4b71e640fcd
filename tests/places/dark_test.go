//go:build linux

package places

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// A stopped prefix is a pulled cable, or a laptop that sleeps: nothing comes, and nothing ends.
func TestDark_AClientHasItsPlaceAndItsKeyboardAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		s := w.open(t, w.link(t))
		s, _, err := s.ReadAs(t.Context(), "agent")
		want(t, err)
		want(t, run(t, s, "x = 41"))
		now, err := s.Info(t.Context())
		want(t, err)
		_, err = s.SaveReadCursor(t.Context(), now.LastSeq)
		want(t, err)
		want(t, s.TakeWriteLock(t.Context(), true))
		if w.signal(syscall.SIGSTOP) == 0 {
			t.Fatal("nothing was stopped")
		}
		other := w.e.direct(t).Session(s.Name())
		if err := run(t, other, "x = 0"); session.KindOf(err) == "" {
			t.Error("somebody else writes while the keyboard is held over a dark link")
		}
		want(t, run(t, s, "assert x == 41"))
		_, read, err := s.ReadAs(t.Context(), "agent")
		want(t, err)
		if read < now.LastSeq {
			t.Errorf("it has read up to %d, and was at %d", read, now.LastSeq)
		}
	})
}

// The connections that were made are those that have ended, but for the one that is used.
func TestDark_TheDaemonHasNoConnectionLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		s := w.open(t, w.link(t))
		for range 3 {
			want(t, run(t, s, "1"))
			w.signal(syscall.SIGSTOP)
		}
		want(t, run(t, s, "1"))
		eventually(t, "one connection is left on either side", func() bool { return len(w.far()) == 1 && len(w.prefixes()) == 1 })
	})
}

// Nothing is wanted here, so nobody connects again: the connection itself outlives the minute, on
// both sides.
func TestDark_AMinuteOfItWhileNothingIsWantedLosesNothing(t *testing.T) {
	t.Parallel()
	w := on(t, "ssh").way(t)
	d := w.dialer()
	d.KeepAlive = 5 * time.Minute // as for commands
	l := client.NewLink(d, nil)
	t.Cleanup(l.Close)
	s := w.open(t, l)
	s, _, err := s.ReadAs(t.Context(), "agent")
	want(t, err)
	want(t, run(t, s, "x = 41"))
	now, err := s.Info(t.Context())
	want(t, err)
	_, err = s.SaveReadCursor(t.Context(), now.LastSeq)
	want(t, err)
	want(t, s.TakeWriteLock(t.Context(), true))
	before := w.prefixes()
	if w.signal(syscall.SIGSTOP) != 1 {
		t.Fatalf("of one connection there are the processes %v", before)
	}
	<-time.After(time.Minute) // that is what it is about
	other := w.e.direct(t).Session(s.Name())
	if err := run(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("somebody else writes while the keyboard is held over a dark link")
	}
	w.signal(syscall.SIGCONT)
	want(t, run(t, s, "assert x == 41"))
	_, read, err := s.ReadAs(t.Context(), "agent")
	want(t, err)
	if read < now.LastSeq {
		t.Errorf("it has read up to %d, and was at %d", read, now.LastSeq)
	}
	if after := w.prefixes(); !slices.Equal(before, after) {
		t.Errorf("it has connected again: %v, and %v before", after, before)
	}
	if err := run(t, other, "x = 0"); session.KindOf(err) == "" {
		t.Error("the keyboard is lost")
	}
}
