package mcpserver

import (
	"errors"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
)

// newQueuedCalls has four calls claim the turn of a view. The first has it, the others are held.
func newQueuedCalls() (v *callerSession, arrivals *mcptransport.Queue, held []*queuedCall) {
	v = newCallerSession("main", "fake", "", new(sync.Mutex))
	arrivals = new(mcptransport.Queue)
	for range 4 {
		held = append(held, v.claimTurn(&mcptransport.ToolCall{Arrival: arrivals.Join()}))
	}
	return v, arrivals, held
}

// readDecisions returns the decision about each input: "held", "runs" or the reason of a refusal.
func readDecisions(held []*queuedCall) (all [4]string) {
	for i, h := range held {
		select {
		case <-h.decided:
			if all[i] = h.refusal; h.refusal == "" {
				all[i] = "runs"
			}
		default:
			all[i] = "held"
		}
	}
	return all
}

func TestClaimTurn(t *testing.T) {
	t.Run("each call runs when the one before is done", func(t *testing.T) {
		v, _, held := newQueuedCalls()
		for i := range held {
			want := [4]string{"held", "held", "held", "held"}
			for j := range i + 1 {
				want[j] = "runs"
			}
			if got := readDecisions(held); got != want {
				t.Errorf("after %d: got %q, want %q", i, got, want)
			}
			v.releaseTurn(held[i].turnOwner, "")
		}
	})

	t.Run("a call that times out rejects those behind it", func(t *testing.T) {
		v, _, held := newQueuedCalls()
		if !v.dropQueued(held[2]) || v.dropQueued(held[2]) {
			t.Error("it was not dropped once")
		}
		if got, want := readDecisions(held), [4]string{"runs", "held", "held", "the one before it was not run"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a cancelled call leaves the others in the queue", func(t *testing.T) {
		v, _, held := newQueuedCalls()
		held[2].call.Cancel()
		v.dropQueued(held[2])
		v.releaseTurn(held[0].turnOwner, "")
		v.releaseTurn(held[1].turnOwner, "")
		if got, want := readDecisions(held), [4]string{"runs", "runs", "held", "runs"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a failure spares calls that come after its answer", func(t *testing.T) {
		v, arrivals, held := newQueuedCalls()
		held[0].call.Deliver(true)
		after := v.claimTurn(&mcptransport.ToolCall{Arrival: arrivals.Join()})
		v.releaseTurn(held[0].turnOwner, "failed")
		why := "an earlier call, which was not answered yet, failed"
		if got, want := readDecisions(held), [4]string{"runs", why, why, why}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		<-after.decided
		if after.refusal != "" {
			t.Errorf("got %q for a call that came after the answer", after.refusal)
		}
	})
}

// News from far away may come when the call that waited for them has given up.
func TestAnswerInProgress(t *testing.T) {
	t.Parallel()
	v, arrivals, _ := newQueuedCalls()
	v.owner, v.shownRequestID = nil, 7
	late, err := v.beginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	late.finishAnswer()
	late.markAccepted()
	if late.acceptedOwner() != nil || v.owner != nil {
		t.Error("a call that has ended owns the turn")
	}
	h, err := v.beginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	h.markAccepted()
	h.finishAnswer()
	if h.acceptedOwner() == nil || v.owner != h.acceptedOwner() || v.shownRequestID != 0 {
		t.Error("the call that has answered does not own the turn")
	}
	if _, err := v.beginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7); !errors.Is(err, errAlreadyAnswered) {
		t.Errorf("a second answer to the wait: %v", err)
	}
}
