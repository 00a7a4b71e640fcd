package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// A queuedRun is what became of a run that waited in the queue.
type queuedRun struct {
	result *session.Result
	err    error
}

// startQueued starts a run that waits, and returns once n inputs wait.
func startQueued(ctx context.Context, r *testDaemon, other, c *client.Client, code string, n int) <-chan queuedRun {
	r.t.Helper()
	done := make(chan queuedRun, 1)
	go func() {
		result, err := session.Run(ctx, c.Session("main"), code, &session.RunOptions{Queue: true})
		done <- queuedRun{result, err}
	}()
	waitQueued(r, other, n)
	return done
}

// waitQueued waits until n inputs wait for the session.
func waitQueued(r *testDaemon, c *client.Client, n int) {
	r.t.Helper()
	for {
		now, err := c.GetSession(r.t.Context(), "main")
		if err != nil {
			r.t.Fatal(err)
		}
		if now.QueuedInputs == n {
			return
		}
		_, _ = c.WaitTurn(r.t.Context(), protocol.WaitParams{Session: "main", WaitMS: 1})
	}
}

// cutOff breaks the connections of a dialer, and returns once the daemon knows that.
func cutOff(r *testDaemon, other *client.Client, w *faultdial.FaultyDialer) {
	r.t.Helper()
	w.SetBroken(true)
	wait.Until(r.t, "only the other client is connected", func() bool {
		all, err := other.ListClients(r.t.Context(), "")
		return err == nil && len(all) == 1
	})
}

func TestStart_Queue(t *testing.T) {
	t.Parallel()

	// startBusy starts a daemon whose session runs code until endTurn is called.
	startBusy := func(t *testing.T) (r *testDaemon, c *client.Client, endTurn func()) {
		r = startDaemon(t, nil)
		c = r.dial()
		r.newSession(c)
		reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep"})
		if err != nil {
			t.Fatal(err)
		}
		return r, c, func() {
			if _, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: reply.Turn}); err != nil {
				t.Fatal(err)
			}
		}
	}

	t.Run("keeps the order of two clients", func(t *testing.T) {
		t.Parallel()
		r, c, endTurn := startBusy(t)
		clients := []*client.Client{newLink(t, faultdial.NewDialer(r.socket)), r.dial()}
		var waiting []<-chan queuedRun
		for i := range 8 {
			waiting = append(waiting, startQueued(t.Context(), r, c, clients[i%2], fmt.Sprintf("print %d", i), i+1))
		}
		endTurn()
		last := uint64(0)
		for i, done := range waiting {
			run := <-done
			if run.err != nil || run.result.Text != fmt.Sprintf("%d\n", i) || run.result.Turn <= last {
				t.Fatalf("run %d behind turn %d: got %+v, %v", i, last, run.result, run.err)
			}
			last = run.result.Turn
		}
	})

	t.Run("forgets an input whose connection ends", func(t *testing.T) {
		t.Parallel()
		r, c, endTurn := startBusy(t)
		gone := r.dial()
		done := startQueued(t.Context(), r, c, gone, "print no", 1)
		_ = gone.Close()
		if run := <-done; run.result != nil || session.KindOf(run.err) != session.KindUnreachable {
			t.Errorf("got %+v, %v", run.result, run.err)
		}
		waitQueued(r, c, 0)
		endTurn()
		r.runCode(c, "print yes", "yes\n")
	})

	t.Run("checks the write lock when the turn comes", func(t *testing.T) {
		t.Parallel()
		r, c, endTurn := startBusy(t)
		done := startQueued(t.Context(), r, c, r.dial(), "print no", 1)
		if err := c.TakeWriteLock(t.Context(), "main", "ada", true); err != nil {
			t.Fatal(err)
		}
		endTurn()
		if run := <-done; run.result != nil || session.KindOf(run.err) != session.KindLocked {
			t.Errorf("got %+v, %v", run.result, run.err)
		}
	})

	t.Run("does not start an input whose client is away", func(t *testing.T) {
		t.Parallel()
		r, c, endTurn := startBusy(t)
		w := faultdial.NewDialer(r.socket)
		done := startQueued(t.Context(), r, c, newLink(t, w), "print back", 1)
		cutOff(r, c, w)
		endTurn()
		for {
			_, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print no"})
			if refused, ok := errors.AsType[*session.Error](err); !ok || refused.Kind != session.KindBusy {
				t.Fatalf("got %v", err)
			} else if refused.Turn == 0 { // the turn before is over, and the place is kept
				break
			}
		}
		w.SetBroken(false)
		if run := <-done; run.err != nil || run.result.Text != "back\n" {
			t.Errorf("got %+v, %v", run.result, run.err)
		}
	})

	t.Run("drops an input whose client stays away", func(t *testing.T) {
		t.Parallel()
		if slowSystem != "" {
			t.Skip(slowSystem)
		}
		r, c, endTurn := startBusy(t)
		w := faultdial.NewDialer(r.socket)
		ctx, giveUp := context.WithCancel(t.Context())
		done := startQueued(ctx, r, c, newLink(t, w), "print no", 1)
		cutOff(r, c, w)
		giveUp()
		if run := <-done; run.result != nil || run.err == nil {
			t.Errorf("got %+v, %v", run.result, run.err)
		}
		start := time.Now()
		endTurn()
		waitQueued(r, c, 0)
		if waited := time.Since(start); waited < 5*time.Second {
			t.Errorf("it kept its place for %s only", waited)
		}
		r.runCode(c, "print yes", "yes\n")
	})
}
