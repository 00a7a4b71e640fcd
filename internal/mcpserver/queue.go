package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A turnClaim is the claim of a call to a session's turn. Its ownership starts before its input is
// submitted, and ends when it is certain whether the client gets the answer.
type turnClaim struct {
	call      *mcptransport.ToolCall
	decided   chan struct{} // closed when the call owns the turn or is refused
	refusal   string        // set with the decision; "" means that the input may be submitted
	submitted chan struct{} // closed when the input was submitted or refused
	ended     chan struct{} // closed by endOwnership
	endOnce   sync.Once     // closes ended
}

func newTurnClaim(c *mcptransport.ToolCall) *turnClaim {
	return &turnClaim{call: c, decided: make(chan struct{}), submitted: make(chan struct{}), ended: make(chan struct{})}
}

// endOwnership closes ended. Either the call no longer owns the turn, or it was cancelled and the
// next reply can report the effect of the interrupt.
func (o *turnClaim) endOwnership() { o.endOnce.Do(func() { close(o.ended) }) }

// announceTurns tells the calls of decisions about them.
func announceTurns(decisions []callorder.Decision[*turnClaim]) {
	for _, d := range decisions {
		d.Call.refusal = d.Refusal
		close(d.Call.decided)
	}
}

// claimTurn makes a call the owner of the turn, or queues it.
func (cs *callerSession) claimTurn(c *mcptransport.ToolCall) *turnClaim {
	claim := newTurnClaim(c)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	announceTurns(cs.turns.Join(claim, c.Number()))
	return claim
}

// takeOverTurn makes a call the owner of a turn that it has answered or continues.
func (cs *callerSession) takeOverTurn(c *mcptransport.ToolCall) *turnClaim {
	claim := newTurnClaim(c)
	close(claim.submitted)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.turns.TakeOver(claim, c.Number())
	return claim
}

// releaseTurn ends a call's ownership of the turn.
func (cs *callerSession) releaseTurn(o *turnClaim, outcome callorder.CallOutcome) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	defer o.endOwnership()
	announceTurns(cs.turns.Release(o, outcome, o.call.NewestOverlapping()))
}

// dropQueued removes a call from the queue, if it is still there.
func (cs *callerSession) dropQueued(o *turnClaim) (dropped bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	decisions, dropped := cs.turns.Drop(o, o.call.IsCancelled())
	announceTurns(decisions)
	return dropped
}

// rejectEarlierInputs prepares a call that is about to end the running turn. It waits for an
// input that is being submitted, and refuses the queued inputs that came before the call.
func (cs *callerSession) rejectEarlierInputs(ctx context.Context, c *mcptransport.ToolCall) {
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

// awaitCancelled waits, for a bounded time, until the turn of a cancelled call is interrupted, so
// that the next reply can report it. It returns false if ctx ends.
func (cs *callerSession) awaitCancelled(ctx context.Context, mine *turnClaim) bool {
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

// awaitEarlierCalls waits until the earlier calls about the same session have started. It returns
// false if ctx ended or the deadline passed.
func (sc *sessionCall) awaitEarlierCalls(ctx context.Context) bool {
	return sc.awaitWithProgress(ctx, sc.call.sessionTicket.Ready(), sc.deadline)
}

// takeTurn makes the call the owner of the session's next turn. If it returns false, there is a
// result, which is nil if ctx ended.
func (sc *sessionCall) takeTurn(ctx context.Context) (bool, *mcp.CallToolResult) {
	h := sc.caller.claimTurn(sc.call.ToolCall)
	select {
	case <-h.decided:
	default:
		sc.call.sessionTicket.Leave()
		until := sc.deadline
		if timeout := sc.call.clientProfile().QueueTimeout; timeout > 0 {
			until = earlierTime(until, time.Now().Add(timeout))
		}
		if !sc.awaitWithProgress(ctx, h.decided, until) && sc.caller.dropQueued(h) {
			if ctx.Err() != nil {
				return false, nil
			}
			return false, sc.replyRefused(ctx, callorder.ReasonNotAnswered)
		}
		<-h.decided
	}
	if h.refusal != "" {
		return false, sc.replyRefused(ctx, h.refusal)
	}
	sc.owner = h
	return true, nil
}

// replyRefused replies that the input was not run, and why.
func (sc *sessionCall) replyRefused(ctx context.Context, why string) *mcp.CallToolResult {
	sc.refuseInput(why)
	return sc.replyNow(ctx, sc.currentReply)
}

// awaitWithProgress waits until ready is closed or the deadline passes, with progress for the
// client.
func (sc *sessionCall) awaitWithProgress(ctx context.Context, ready <-chan struct{}, deadline time.Time) bool {
	select {
	case <-ready: // needs no timer
		return true
	default:
	}
	beat := sc.call.beat
	for {
		timer := time.NewTimer(time.Until(beat.NextCheck(deadline)))
		select {
		case <-ready:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !time.Now().Before(deadline) {
			return false
		}
		if elapsed, due := beat.BeatIfDue(); due {
			sc.call.ReportProgress(elapsed.Seconds(), "an earlier call comes first")
		}
	}
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// releaseTurn ends the call's ownership of a turn, unless the delivery of a reply will end it.
func (sc *sessionCall) releaseTurn() {
	if sc.owner == nil || sc.releasesOnDelivery {
		return
	}
	if sc.outcome == callorder.OutcomeDone {
		sc.outcome = callorder.OutcomeFailed
	}
	sc.caller.releaseTurn(sc.owner, sc.outcomeNow())
}

// outcomeNow returns the call's outcome so far.
func (sc *sessionCall) outcomeNow() callorder.CallOutcome {
	if sc.call.IsCancelled() {
		return callorder.OutcomeCancelled
	}
	return sc.outcome
}

// replyOutcome returns the outcome of a call that gets this reply.
func replyOutcome(r session.Reply) callorder.CallOutcome {
	switch {
	case r.InputRequest != nil:
		return callorder.OutcomeWaitsForInput
	case r.Outcome == timeline.OutcomeOK:
		return callorder.OutcomeDone
	case r.Outcome == timeline.OutcomeError:
		return callorder.OutcomeError
	case r.Outcome == timeline.OutcomeInterrupted:
		return callorder.OutcomeInterrupted
	case r.Outcome != "", r.State == session.StateEnded:
		return callorder.OutcomeSessionEnded
	default:
		return callorder.OutcomeStillRuns
	}
}
