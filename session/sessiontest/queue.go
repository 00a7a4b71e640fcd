package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// queuePromises are the promises of session.TurnQueuer.
func queuePromises() []promise {
	return []promise{
		{"inputs that wait run in the order of their arrival", testQueueOrder},
		{"an input whose context ends leaves the queue, and the others keep their order", testQueueCancelled},
		{"the queue has a bound, and an input beyond it is refused", testQueueFull},
		{"an input waits until the turn before is answered", testQueueAnswer},
		{"a reset or the end of the session refuses the inputs that wait", testQueueRefused},
	}
}

// A waitingRun is a run that waits in the queue.
type waitingRun struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when result and err are set
	result *session.Result
	err    error
}

// startWaiting starts runs one after the other, each once the one before is in the queue.
func startWaiting(t *testing.T, s session.Session, n int) (waiting []*waitingRun) {
	t.Helper()
	for i := range n {
		ctx, cancel := context.WithCancel(withTimeout(t))
		w := &waitingRun{cancel: cancel, done: make(chan struct{})}
		go func() {
			defer close(w.done)
			w.result, w.err = session.Run(ctx, s, fmt.Sprintf("print %d", i), &session.RunOptions{Queue: true})
		}()
		waiting = append(waiting, w)
		waitQueued(t, s, i+1, w)
	}
	return waiting
}

// waitQueued waits until n inputs wait, also the given ones.
func waitQueued(t *testing.T, s session.Session, n int, waiting ...*waitingRun) {
	t.Helper()
	for ctx := withTimeout(t); ; {
		i, err := s.Info(ctx)
		if err != nil {
			t.Fatalf("%d inputs wait instead of %d: %v", i.QueuedInputs, n, err)
		}
		if i.QueuedInputs == n {
			return
		}
		for _, w := range waiting {
			select {
			case <-w.done:
				t.Fatalf("an input did not wait: got %+v, %v", w.result, w.err)
			default:
			}
		}
		_, _ = s.Wait(ctx, 0, session.WaitAtMost(time.Millisecond))
	}
}

// wantOrder waits for runs and checks that they ran in this order.
func wantOrder(t *testing.T, waiting []*waitingRun) {
	t.Helper()
	last := uint64(0)
	for i, w := range waiting {
		<-w.done
		if w.err != nil || w.result.Outcome != timeline.OutcomeOK || w.result.Turn <= last {
			t.Fatalf("run %d behind turn %d: got %+v, %v", i, last, w.result, w.err)
		}
		last = w.result.Turn
	}
}

func endTurn(t *testing.T, s session.Session, turn uint64) {
	t.Helper()
	if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
		t.Fatal(err)
	}
}

func testQueueOrder(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	waiting := startWaiting(t, s, 8)
	endTurn(t, s, turn)
	wantOrder(t, waiting)
	waitQueued(t, s, 0)
	if r := run(t, s, "print alone", &session.RunOptions{Queue: true}); r.Text != "alone\n" {
		t.Errorf("an idle session: got %+v", r)
	}
}

func testQueueCancelled(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	waiting := startWaiting(t, s, 5)
	for i, gone := range []int{0, 2} {
		w := waiting[gone-i]
		w.cancel()
		<-w.done
		if w.result != nil || !errors.Is(w.err, context.Canceled) {
			t.Errorf("got %+v, %v", w.result, w.err)
		}
		waiting = append(waiting[:gone-i:gone-i], waiting[gone-i+1:]...)
		waitQueued(t, s, 4-i)
	}
	endTurn(t, s, turn)
	wantOrder(t, waiting)
	if i := readInfo(t, s); i.Turn != turn+3 {
		t.Errorf("%d turns ran instead of 3", i.Turn-turn)
	}
}

func testQueueFull(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	waiting := startWaiting(t, s, session.MaxQueuedInputs)
	r, err := session.Run(withTimeout(t), s, "print no", &session.RunOptions{Queue: true})
	if r != nil || !errors.Is(err, session.ErrQueueFull) {
		t.Errorf("got %+v, %v", r, err)
	}
	endTurn(t, s, turn)
	wantOrder(t, waiting)
}

func testQueueAnswer(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "wait name? ")
	r := waitTurn(t, s, turn)
	waiting := startWaiting(t, s, 2)
	if r.InputRequest == nil {
		t.Fatalf("got %+v", r)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ada\n")}); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, waiting)
}

func testQueueRefused(t *testing.T, s session.Session) {
	for _, end := range []struct {
		by   func(context.Context) error
		want error
	}{{s.Reset, session.ErrReset}, {s.Close, session.ErrClosed}} {
		submitCode(t, s, "sleep")
		waiting := startWaiting(t, s, 3)
		if err := end.by(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
		for _, w := range waiting {
			if <-w.done; w.result != nil || !errors.Is(w.err, end.want) {
				t.Errorf("got %+v, %v, want %v", w.result, w.err, end.want)
			}
		}
	}
}
