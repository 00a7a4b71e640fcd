package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/session"
)

func (d *testDaemon) newChangeStream(c *client.Client, name string) *client.ChangeStream {
	d.t.Helper()
	w, err := c.SubscribeChanges(d.t.Context(), name)
	if err != nil {
		d.t.Fatal(err)
	}
	return w
}

// readUntilChange reads ticks until one satisfies is. It returns that tick and the number of ticks read.
func readUntilChange(t *testing.T, w *client.ChangeStream, what string, is func(session.Tick) bool) (session.Tick, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), processTimeout)
	defer cancel()
	for n := 1; ; n++ {
		tick, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if is(tick) {
			return tick, n
		}
	}
}

func TestChangeStream(t *testing.T) {
	t.Parallel()

	t.Run("reports changes at most ten times a second", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		raw := r.dialRaw()
		raw.send(`{"jsonrpc":"2.0","id":1,"method":"stream/subscribe","params":{"session":"main","changes_only":true}}`)
		begun, ticks := time.Now(), 0
		next := func() session.Tick {
			for {
				if line := raw.receive(); strings.Contains(line, protocol.MethodChange) {
					ticks++
					var m struct {
						Params protocol.ChangeNotice `json:"params"`
					}
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					return m.Params.Change
				}
			}
		}
		if now := next(); now.State != session.StateIdle || now.Turn != 1 || now.Session != "main" {
			t.Errorf("got %+v", now)
		}
		for range 300 {
			r.runCode(c, "print x", "x\n")
		}
		end, err := c.GetSession(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		for last := (session.Tick{}); last.LastSeq < end.LastSeq || last.State != session.StateIdle; last = next() {
		}
		if most := int(time.Since(begun)/(100*time.Millisecond)) + 2; ticks > most {
			t.Errorf("got %d ticks where %d are the most", ticks, most)
		}
	})

	t.Run("reports sessions that open, wait and close", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		w := r.newChangeStream(c, "")
		is := func(name string, state session.State) func(session.Tick) bool {
			return func(t session.Tick) bool { return t.Session == name && t.State == state && !t.Closed }
		}
		readUntilChange(t, w, "the session that is there", is("main", session.StateIdle))
		for range 3 { // again under the same name
			if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "later"}); err != nil {
				t.Fatal(err)
			}
			readUntilChange(t, w, "a session that is opened", is("later", session.StateIdle))
			if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "later", Input: "wait name? "}); err != nil {
				t.Fatal(err)
			}
			tick, _ := readUntilChange(t, w, "an input request", is("later", session.StateWaiting))
			if tick.InputRequest == nil || tick.InputRequest.Prompt != "name? " || tick.Turn != 1 {
				t.Errorf("got %+v", tick)
			}
			if err := c.CloseSession(t.Context(), "later"); err != nil {
				t.Fatal(err)
			}
			readUntilChange(t, w, "a session that is closed", func(t session.Tick) bool { return t.Session == "later" && t.Closed })
		}
		if err := w.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after a cancel: got %v", err)
		}
	})

	t.Run("ends with its session and rejects unknown ones", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		if _, err := c.SubscribeChanges(t.Context(), "nobody"); session.KindOf(err) != session.KindClosed {
			t.Errorf("got %v", err)
		}
		if _, err := c.Subscribe(t.Context(), protocol.SubscribeParams{ChangesOnly: true, After: 1}); session.KindOf(err) != session.KindInvalid {
			t.Errorf("got %v", err)
		}
		if _, err := c.Subscribe(t.Context(), protocol.SubscribeParams{}); session.KindOf(err) != session.KindInvalid {
			t.Errorf("events of all sessions: got %v", err)
		}
		w := r.newChangeStream(c, "main")
		readUntilChange(t, w, "the first", func(session.Tick) bool { return true })
		if err := c.CloseSession(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := w.Next(t.Context()); err != nil {
				if !errors.Is(err, session.ErrClosed) {
					t.Errorf("got %v", err)
				}
				return
			}
		}
	})

	t.Run("a slow reader gets the latest change per session", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c, sleeper := r.dial(), r.dial()
		r.newSession(c)
		w := r.newChangeStream(sleeper, "")
		for range 200 {
			r.runCode(c, "print x", "x\n")
		}
		end, err := c.GetSession(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		_, n := readUntilChange(t, w, "the newest", func(t session.Tick) bool { return t.LastSeq >= end.LastSeq && t.State == session.StateIdle })
		if n > 3 { // a delayed tick, and the ticks of the end of the last turn
			t.Errorf("the reader got %d ticks", n)
		}
	})

	t.Run("reports what was missed after a pause", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		for _, name := range []string{"", "main"} {
			w := r.newChangeStream(c, name)
			before, _ := readUntilChange(t, w, "the first", func(session.Tick) bool { return true })
			if err := c.Call(t.Context(), protocol.MethodPause, protocol.SubscriptionParams{Subscription: w.ID()}, nil); err != nil {
				t.Fatal(err)
			}
			r.runCode(c, "print x", "x\n")
			if err := c.Call(t.Context(), protocol.MethodResume, protocol.SubscriptionParams{Subscription: w.ID()}, nil); err != nil {
				t.Fatal(err)
			}
			readUntilChange(t, w, "what was missed", func(t session.Tick) bool { return t.LastSeq > before.LastSeq })
		}
	})

	t.Run("reports a session closed during an outage", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		near := r.dial()
		for _, name := range []string{"goes", "stays"} {
			if _, err := near.CreateSession(t.Context(), protocol.CreateParams{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		w := faultdial.NewDialer(r.socket)
		ticks, err := newConnOver(t, newLink(t, w)).SubscribeChanges(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		next := func() session.Tick {
			t.Helper()
			ctx, stop := context.WithTimeout(t.Context(), processTimeout)
			defer stop()
			tick, err := ticks.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return tick
		}
		for seen := map[string]bool{}; len(seen) < 2; {
			seen[next().Session] = true
		}
		w.SetBroken(true)
		if err := near.CloseSession(t.Context(), "goes"); err != nil {
			t.Fatal(err)
		}
		w.SetBroken(false)
		for {
			if tick := next(); tick.Session == "goes" && tick.Closed {
				return
			}
		}
	})
}

func TestIdleTimeout_ChangeStream(t *testing.T) {
	t.Parallel()
	clock := startWithClock(t, nil)
	c := clock.dial()
	clock.newSession(c)
	used := clock.lastTurnEnd(c)
	clock.newChangeStream(c, "")
	clock.wantRunningAt(used.Add(idleTimeout - 1))
	clock.wantEndAt(used.Add(idleTimeout))
}
