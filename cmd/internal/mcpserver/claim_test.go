package mcpserver

import (
	"errors"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
)

// claims has four calls claim the turn of a view. The first has it, the others are held.
func claims() (v *view, arrivals *mcpwire.Queue, held []*holding) {
	v = newView("main", "fake", "", new(sync.Mutex))
	arrivals = new(mcpwire.Queue)
	for range 4 {
		held = append(held, v.claim(&mcpwire.Call{Arrival: arrivals.Join()}))
	}
	return v, arrivals, held
}

// refusals returns the decision about each input: "held", "runs" or the reason of a refusal.
func refusals(held []*holding) (all [4]string) {
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

func TestClaim_EachRunsWhenTheOneBeforeIsDone(t *testing.T) {
	v, _, held := claims()
	for i := range held {
		want := [4]string{"held", "held", "held", "held"}
		for j := range i + 1 {
			want[j] = "runs"
		}
		if got := refusals(held); got != want {
			t.Errorf("after %d: got %q, want %q", i, got, want)
		}
		v.release(held[i].owner, "")
	}
}

func TestClaim_OneThatIsGivenUpForTimeTakesThoseBehindItAlong(t *testing.T) {
	v, _, held := claims()
	if !v.drop(held[2]) || v.drop(held[2]) {
		t.Error("it was not dropped once")
	}
	if got, want := refusals(held), [4]string{"runs", "held", "held", "the one before it was not run"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClaim_OneThatIsCancelledLeavesTheOthers(t *testing.T) {
	v, _, held := claims()
	held[2].call.Cancel()
	v.drop(held[2])
	v.release(held[0].owner, "")
	v.release(held[1].owner, "")
	if got, want := refusals(held), [4]string{"runs", "runs", "held", "runs"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClaim_WhatComesAfterTheAnswerIsNotRefusedForIt(t *testing.T) {
	v, arrivals, held := claims()
	held[0].call.Deliver(true)
	after := v.claim(&mcpwire.Call{Arrival: arrivals.Join()})
	v.release(held[0].owner, "failed")
	why := "an earlier call, which was not answered yet, failed"
	if got, want := refusals(held), [4]string{"runs", why, why, why}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	<-after.decided
	if after.refusal != "" {
		t.Errorf("got %q for a call that came after the answer", after.refusal)
	}
}

// News from far away may come when the call that waited for them has given up.
func TestHandover_AnAnswerThatIsTakenAfterItsCallHasEndedOwnsNothing(t *testing.T) {
	t.Parallel()
	v, arrivals, _ := claims()
	v.owner, v.shown = nil, 7
	late, err := v.beginAnswer(&mcpwire.Call{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	late.end()
	late.taken()
	if late.has() != nil || v.owner != nil {
		t.Error("a call that has ended owns the turn")
	}
	h, err := v.beginAnswer(&mcpwire.Call{Arrival: arrivals.Join()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	h.taken()
	h.end()
	if h.has() == nil || v.owner != h.has() || v.shown != 0 {
		t.Error("the call that has answered does not own the turn")
	}
	if _, err := v.beginAnswer(&mcpwire.Call{Arrival: arrivals.Join()}, 7); !errors.Is(err, errAnswered) {
		t.Errorf("a second answer to the wait: %v", err)
	}
}
