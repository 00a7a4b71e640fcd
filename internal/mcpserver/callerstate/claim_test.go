package callerstate

import (
	"errors"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// newQueuedCalls makes four calls claim the turn of a session. The first one gets it; the others
// are queued.
func newQueuedCalls() (v *CallerSession, arrivals *mcptransport.Queue, calls []*TurnClaim) {
	v = newCallerSession("main", "fake", "", new(sync.Mutex))
	arrivals = new(mcptransport.Queue)
	for range 4 {
		calls = append(calls, v.ClaimTurn(&mcptransport.ToolCall{Arrival: arrivals.Join()}))
	}
	return v, arrivals, calls
}

// readDecisions returns the decision about each input: "queued", "runs" or the reason for a
// refusal.
func readDecisions(calls []*TurnClaim) (all [4]string) {
	for i, h := range calls {
		select {
		case <-h.decided:
			if all[i] = h.refusal; h.refusal == "" {
				all[i] = "runs"
			}
		default:
			all[i] = "queued"
		}
	}
	return all
}

func TestClaimTurn(t *testing.T) {
	t.Run("each call runs when the one before is done", func(t *testing.T) {
		v, _, calls := newQueuedCalls()
		for i := range calls {
			want := [4]string{"queued", "queued", "queued", "queued"}
			for j := range i + 1 {
				want[j] = "runs"
			}
			if got := readDecisions(calls); got != want {
				t.Errorf("after %d: got %q, want %q", i, got, want)
			}
			v.ReleaseTurn(calls[i], "")
		}
	})

	t.Run("a call that times out rejects later ones", func(t *testing.T) {
		v, _, calls := newQueuedCalls()
		if !v.DropQueued(calls[2]) || v.DropQueued(calls[2]) {
			t.Error("the call was not dropped exactly once")
		}
		if got, want := readDecisions(calls), [4]string{"runs", "queued", "queued", "the one before it was not run"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a cancelled call leaves the others in the queue", func(t *testing.T) {
		v, _, calls := newQueuedCalls()
		calls[2].call.Cancel()
		v.DropQueued(calls[2])
		v.ReleaseTurn(calls[0], "")
		v.ReleaseTurn(calls[1], "")
		if got, want := readDecisions(calls), [4]string{"runs", "runs", "queued", "runs"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a failure spares calls that come after its answer", func(t *testing.T) {
		v, arrivals, calls := newQueuedCalls()
		calls[0].call.Deliver(true)
		after := v.ClaimTurn(&mcptransport.ToolCall{Arrival: arrivals.Join()})
		v.ReleaseTurn(calls[0], "failed")
		why := "an earlier call, which was not answered yet, failed"
		if got, want := readDecisions(calls), [4]string{"runs", why, why, why}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		<-after.decided
		if after.refusal != "" {
			t.Errorf("got %q for a call that came after the answer", after.refusal)
		}
	})
}

// Events from a remote session may arrive after the waiting call has ended.
func TestAnswerInProgress(t *testing.T) {
	t.Parallel()
	v, arrivals, _ := newQueuedCalls()
	v.turns, v.shownRequestID = callorder.TurnQueue[*TurnClaim]{}, 7
	late, err := v.BeginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	late.FinishAnswer()
	late.MarkAccepted()
	if _, owned := v.turns.Owner(); late.AcceptedOwner() != nil || owned {
		t.Error("a call that has ended owns the turn")
	}
	h, err := v.BeginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	h.MarkAccepted()
	h.FinishAnswer()
	if owner, _ := v.turns.Owner(); h.AcceptedOwner() == nil || owner != h.AcceptedOwner() || v.shownRequestID != 0 {
		t.Error("the call that has answered does not own the turn")
	}
	if _, err := v.BeginAnswer(&mcptransport.ToolCall{Arrival: arrivals.Join()}, 7); !errors.Is(err, errAlreadyAnswered) {
		t.Errorf("a second answer to the request: %v", err)
	}
}
