//go:build unix

package daemon_test

import (
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// startReader starts a turn whose program asks for a line, and waits until the question is on the
// screen.
func (d *testDaemon) startReader(c *client.Client, p protocol.StartParams) (turn uint64) {
	d.t.Helper()
	p.Session, p.Input = "main", "sh echo name?; read -r a; echo got $a"
	r, err := c.StartTurn(d.t.Context(), p)
	if err != nil {
		d.t.Fatal(err)
	}
	wait.Until(d.t, "the program asks", func() bool {
		s, err := c.ReadScreen(d.t.Context(), "main")
		if err != nil {
			d.t.Fatal(err)
		}
		return len(s.Lines) > 0 && s.Lines[0] == "name?"
	})
	return r.Turn
}

// wantEnd waits for the end of a turn, and fails unless its program has read a line.
func (d *testDaemon) wantEnd(c *client.Client, turn uint64, line string) {
	d.t.Helper()
	for { // the wait also ends at the input request, if the keys have not ended it yet
		r, err := c.WaitTurn(d.t.Context(), protocol.WaitParams{Session: "main", Turn: turn, WaitMS: processTimeout.Milliseconds()})
		if err != nil {
			d.t.Fatal(err)
		}
		if r.Outcome == "" {
			continue
		}
		if got := r.Text(); !strings.Contains(got, "name?\n") || !strings.HasSuffix(got, "\ngot "+line+"\n") {
			d.t.Errorf("got %q", got)
		}
		return
	}
}

func TestType(t *testing.T) {
	t.Parallel()

	t.Run("needs the write lock, but a look does not", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		agent, user := r.dial(), r.dial()
		r.newSession(agent)
		turn := r.startReader(agent, protocol.StartParams{WriteLock: true, Author: "bot"})
		_, err := user.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "no<Enter>"}})
		if session.KindOf(err) != session.KindLocked {
			t.Errorf("another client: got %v", err)
		}
		_, err = user.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Live: true}})
		if kind := session.KindOf(err); kind != "" && kind != session.KindStale { // stale where it is not seen that the program reads
			t.Errorf("a question: got %v", err)
		}
		typed, err := agent.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "yes<Enter>"}, Author: "bot"})
		if err != nil || typed.Turn != turn {
			t.Errorf("got turn %d, %v", typed.Turn, err)
		}
		r.wantEnd(agent, turn, "yes")
	})

	t.Run("happens once however often it is repeated", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.connectAs(1)
		r.newSession(c)
		turn := r.startReader(c, protocol.StartParams{})
		once := protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "a"}, Request: "k"}
		for range 3 {
			if typed, err := c.TypeKeys(t.Context(), once); err != nil || typed.Turn != turn {
				t.Errorf("got turn %d, %v", typed.Turn, err)
			}
		}
		once.Text = "b"
		if _, err := c.TypeKeys(t.Context(), once); session.KindOf(err) != session.KindInvalid {
			t.Errorf("other keys in that name: got %v", err)
		}
		if _, err := c.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "<Enter>"}}); err != nil {
			t.Fatal(err)
		}
		r.wantEnd(c, turn, "a")
	})

	t.Run("restarts the idle timeout, but a look does not", func(t *testing.T) {
		t.Parallel()
		clock := startWithClock(t, nil)
		c := clock.dial()
		clock.newSession(c)
		wantStale := func(what string, err error) {
			t.Helper()
			if session.KindOf(err) != session.KindStale {
				t.Errorf("%s: got %v", what, err)
			}
		}
		used := clock.lastTurnEnd(c).Add(idleTimeout - 1)
		clock.wantRunningAt(used)
		_, err := c.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "x"}})
		wantStale("keys", err)
		clock.wantRunningAt(used.Add(idleTimeout - 1))
		_, err = c.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Live: true}})
		wantStale("a question", err)
		_, err = c.ReadScreen(t.Context(), "main")
		wantStale("the screen", err)
		clock.wantEndAt(used.Add(idleTimeout))
	})
}

// The program reads with a timeout, and never stops writing, so it does not wait.
func TestChanges_Listener(t *testing.T) {
	t.Parallel()
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
	}
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	changes, err := c.SubscribeChanges(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	started, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sh stty -icanon min 0 time 1; while :; do echo on; dd bs=1 count=1 of=/dev/null 2>/dev/null; done"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(what string, holds func(session.Tick) bool) {
		t.Helper()
		for {
			change, err := changes.Next(t.Context())
			if err != nil {
				t.Fatalf("no change reports %s: %v", what, err)
			}
			if holds(change) {
				return
			}
		}
	}
	next("the program", func(k session.Tick) bool { return k.Listener != nil && k.Listener.Program == "dd" && k.Listener.Raw })
	if _, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: started.Turn}); err != nil {
		t.Fatal(err)
	}
	next("its end", func(k session.Tick) bool { return k.Listener == nil && k.State == session.StateIdle })
	if i, err := c.GetSession(t.Context(), "main"); err != nil || i.Listener != nil {
		t.Errorf("got %+v, %v", i.Listener, err)
	}
	if r, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", Turn: started.Turn}); err != nil || r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("got %+v, %v", r, err)
	}
}
