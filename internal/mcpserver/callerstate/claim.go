package callerstate

import (
	"context"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// A TurnClaim is the claim of a call to a session's turn. Its ownership starts before its input is
// submitted, and ends when it is certain whether the client gets the answer.
type TurnClaim struct {
	call      *mcptransport.ToolCall
	decided   chan struct{} // closed when the call owns the turn or is refused
	refusal   string        // set with the decision; "" means that the input may be submitted
	submitted chan struct{} // closed when the input was submitted or refused
	ended     chan struct{} // closed by EndOwnership
	endOnce   sync.Once     // closes ended
}

func newTurnClaim(c *mcptransport.ToolCall) *TurnClaim {
	return &TurnClaim{call: c, decided: make(chan struct{}), submitted: make(chan struct{}), ended: make(chan struct{})}
}

// Decision returns a channel that is closed once the call owns the turn or is refused.
func (o *TurnClaim) Decision() <-chan struct{} { return o.decided }

// RefusalReason returns why the input must not be submitted, or "". It is known with the decision.
func (o *TurnClaim) RefusalReason() string { return o.refusal }

// MarkSubmitted records that the input was submitted or refused. It is called once.
func (o *TurnClaim) MarkSubmitted() { close(o.submitted) }

// EndOwnership closes ended. Either the call no longer owns the turn, or it was cancelled and the
// next reply can report the effect of the interrupt.
func (o *TurnClaim) EndOwnership() { o.endOnce.Do(func() { close(o.ended) }) }

// announceTurns passes decisions on to the calls that they are about.
func announceTurns(decisions []callorder.Decision[*TurnClaim]) {
	for _, d := range decisions {
		d.Call.refusal = d.Refusal
		close(d.Call.decided)
	}
}

// ClaimTurn makes a call the owner of the turn, or queues it.
func (cs *CallerSession) ClaimTurn(c *mcptransport.ToolCall) *TurnClaim {
	claim := newTurnClaim(c)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	announceTurns(cs.turns.Join(claim, c.Number()))
	return claim
}

// TakeOverTurn makes a call the owner of a turn that it has answered or continues.
func (cs *CallerSession) TakeOverTurn(c *mcptransport.ToolCall) *TurnClaim {
	claim := newTurnClaim(c)
	close(claim.submitted)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.turns.TakeOver(claim, c.Number())
	return claim
}

// ReleaseTurn ends a call's ownership of the turn.
func (cs *CallerSession) ReleaseTurn(o *TurnClaim, outcome callorder.CallOutcome) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	defer o.EndOwnership()
	announceTurns(cs.turns.Release(o, outcome, o.call.NewestOverlapping()))
}

// DropQueued removes a call from the queue, if it is still there.
func (cs *CallerSession) DropQueued(o *TurnClaim) (dropped bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	decisions, dropped := cs.turns.Drop(o, o.call.IsCancelled())
	announceTurns(decisions)
	return dropped
}

// RejectEarlierInputs prepares a call that is about to end the running turn. It waits for an
// input that is being submitted, and refuses the queued inputs that came before the call.
func (cs *CallerSession) RejectEarlierInputs(ctx context.Context, c *mcptransport.ToolCall) {
	cs.mu.Lock()
	o, ok := cs.turns.Owner()
	announceTurns(cs.turns.RejectBefore(c.Number()))
	cs.mu.Unlock()
	if ok {
		select {
		case <-o.submitted:
		case <-ctx.Done():
		}
	}
}

// AwaitCancelled waits, for a bounded time, until the turn of a cancelled call is interrupted, so
// that the next reply can report it. It returns false if ctx ends.
func (cs *CallerSession) AwaitCancelled(ctx context.Context, mine *TurnClaim) bool {
	cs.mu.Lock()
	o, ok := cs.turns.Owner()
	cs.mu.Unlock()
	if !ok || o == mine || !o.call.IsCancelled() {
		return true
	}
	select {
	case <-o.ended:
		return true
	case <-ctx.Done():
		return false
	}
}
