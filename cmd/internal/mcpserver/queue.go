package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxQueued bounds the inputs that are queued for one session; further ones are refused.
const maxQueued = 16

// A turnOwner is the call that owns a session's turn. Its ownership starts before its input is
// submitted, and ends when it is certain whether the client gets the answer.
type turnOwner struct {
	call          *mcptransport.ToolCall
	submitted     chan struct{} // closed when the input was submitted or refused
	ended         chan struct{} // closed by endOwnership
	endOnce       sync.Once     // closes ended
	refusesQueued bool          // guarded by callerSession.mu; an input queued behind it was refused
	sparedFrom    uint64        // guarded by callerSession.mu; the owner's outcome does not affect calls from this number on; 0: see releaseTurn
}

func newTurnOwner(c *mcptransport.ToolCall) *turnOwner {
	return &turnOwner{call: c, submitted: make(chan struct{}), ended: make(chan struct{})}
}

// endOwnership closes ended. Either the call no longer owns the turn, or it was cancelled and the
// next reply can report the effect of the interrupt.
func (o *turnOwner) endOwnership() { o.endOnce.Do(func() { close(o.ended) }) }

// A queuedCall is an input that waits until the call before it is answered.
type queuedCall struct {
	*turnOwner
	decided chan struct{}
	refusal string // set with the decision; "" means that the input may be submitted
}

// claimTurn makes a call the owner, or queues it. A client that sends an input before the answer
// to an earlier call means it to follow that call. So the input runs if the earlier call
// succeeds, and is refused otherwise.
func (v *callerSession) claimTurn(c *mcptransport.ToolCall) *queuedCall {
	h := &queuedCall{
		turnOwner: newTurnOwner(c),
		decided:   make(chan struct{}),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case c.Number() <= v.rejectedUpTo:
		h.setDecision(v.rejectReason)
	case v.owner == nil:
		v.owner = h.turnOwner
		h.setDecision("")
	case v.owner.refusesQueued:
		h.setDecision(reasonNotAnswered)
	case len(v.queued) == maxQueued:
		h.setDecision(fmt.Sprintf("%d other inputs are queued already", maxQueued))
	default:
		v.queued = append(v.queued, h)
	}
	return h
}

func (h *queuedCall) setDecision(refusal string) {
	h.refusal = refusal
	close(h.decided)
}

// takeOverTurn makes a call the owner of a turn that it has answered or continues.
func (v *callerSession) takeOverTurn(c *mcptransport.ToolCall) *turnOwner {
	o := newTurnOwner(c)
	close(o.submitted)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.owner = o
	return o
}

// A callOutcome says how a call ended, for the inputs queued behind it.
type callOutcome string

const (
	outcomeDone          callOutcome = "" // the inputs behind the call may run
	outcomeFailed        callOutcome = "failed"
	outcomeCancelled     callOutcome = "was cancelled"
	outcomeNotRun        callOutcome = "was not run"
	outcomeWaitsForInput callOutcome = "waits for input"
	outcomeWaitsForUser  callOutcome = "waits for the user"
	outcomeError         callOutcome = "ended in an error"
	outcomeInterrupted   callOutcome = "was interrupted"
	outcomeSessionEnded  callOutcome = "ended the session"
	outcomeStillRuns     callOutcome = "still runs"
)

// refusalReason returns why an input is refused that came before the answer to the call.
func (o callOutcome) refusalReason() string {
	return "an earlier call, which was not answered yet, " + string(o)
}

// releaseTurn ends a call's ownership of the turn. Every outcome but two refuses the inputs that
// came before the call's answer. Behind a call that is done, they run as intended. A client that
// cancels one call also cancels the others that it does not want.
func (v *callerSession) releaseTurn(o *turnOwner, outcome callOutcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer o.endOwnership()
	if v.owner != o {
		return
	}
	v.owner = nil
	if outcome != outcomeDone && outcome != outcomeCancelled {
		last := o.call.NewestOverlapping()
		if o.sparedFrom > 0 {
			last = min(last, o.sparedFrom-1)
		}
		v.rejectQueuedLocked(last, outcome.refusalReason())
	}
	v.startNextLocked()
}

// rejectQueuedLocked refuses the inputs of calls up to a number.
func (v *callerSession) rejectQueuedLocked(last uint64, why string) {
	if last > v.rejectedUpTo {
		v.rejectedUpTo, v.rejectReason = last, why
	}
	var left []*queuedCall
	for _, h := range v.queued {
		if h.call.Number() <= last {
			h.setDecision(why)
		} else {
			left = append(left, h)
		}
	}
	v.queued = left
}

// startNextLocked makes the first queued input the owner, if no call owns the turn.
func (v *callerSession) startNextLocked() {
	if v.owner == nil && len(v.queued) > 0 {
		h := v.queued[0]
		v.queued = v.queued[1:]
		v.owner = h.turnOwner
		h.setDecision("")
	}
}

// dropQueued removes a call from the queue, if it is still there. Unless the call was cancelled,
// later inputs are also refused, and their client learns what runs.
func (v *callerSession) dropQueued(h *queuedCall) (dropped bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, other := range v.queued {
		if other != h {
			continue
		}
		v.queued = append(v.queued[:i:i], v.queued[i+1:]...)
		if !h.call.IsCancelled() {
			if v.owner != nil {
				v.owner.refusesQueued = true
			}
			behind := v.queued[i:]
			v.queued = v.queued[:i]
			for _, other := range behind {
				other.setDecision("the one before it was not run")
			}
		}
		return true
	}
	return false
}

// rejectEarlierInputs prepares a call that is about to end the running turn. It waits for an
// input that is being submitted, and refuses the queued inputs that came before the call. Later
// inputs are not affected.
func (v *callerSession) rejectEarlierInputs(ctx context.Context, c *mcptransport.ToolCall) {
	v.mu.Lock()
	o, number := v.owner, c.Number()
	if o != nil && number > 0 && (o.sparedFrom == 0 || number < o.sparedFrom) {
		o.sparedFrom = number
	}
	if number > 0 {
		v.rejectQueuedLocked(number-1, "a later call stopped what ran before it")
		if v.rejectedUpTo >= number {
			v.rejectedUpTo = number - 1
		}
	}
	v.mu.Unlock()
	if o != nil {
		select {
		case <-o.submitted:
		case <-ctx.Done():
		}
	}
}

// awaitCancelled waits, for a bounded time, until the turn of a cancelled call is interrupted, so
// that the next reply can report it. It returns false if ctx ends.
func (v *callerSession) awaitCancelled(ctx context.Context, mine *turnOwner) bool {
	v.mu.Lock()
	o := v.owner
	v.mu.Unlock()
	if o == nil || o == mine || !o.call.IsCancelled() {
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
func (a *sessionCall) awaitEarlierCalls(ctx context.Context) bool {
	return a.awaitWithProgress(ctx, a.call.sessionTicket.Ready(), a.deadline)
}

// reasonNotAnswered is the reason for refusing an input that was queued for too long.
const reasonNotAnswered = "an earlier call is not answered yet"

// takeTurn makes the call the owner of the session's next turn. If it returns false, there is a
// result, which is nil if ctx ended.
func (a *sessionCall) takeTurn(ctx context.Context) (bool, *mcp.CallToolResult) {
	h := a.caller.claimTurn(a.call.ToolCall)
	select {
	case <-h.decided:
	default:
		a.call.sessionTicket.Leave()
		until := a.deadline
		if timeout := a.call.clientProfile().queueTimeout; timeout > 0 {
			until = earlierTime(until, time.Now().Add(timeout))
		}
		if !a.awaitWithProgress(ctx, h.decided, until) && a.caller.dropQueued(h) {
			if ctx.Err() != nil {
				return false, nil
			}
			return false, a.replyRefused(ctx, reasonNotAnswered)
		}
		<-h.decided
	}
	if h.refusal != "" {
		return false, a.replyRefused(ctx, h.refusal)
	}
	a.owner = h.turnOwner
	return true, nil
}

// replyRefused replies that the input was not run, and why.
func (a *sessionCall) replyRefused(ctx context.Context, why string) *mcp.CallToolResult {
	a.refuseInput(why)
	return a.replyNow(ctx, a.currentReply)
}

// awaitWithProgress waits until ready is closed or the deadline passes, with progress for the
// client.
func (a *sessionCall) awaitWithProgress(ctx context.Context, ready <-chan struct{}, deadline time.Time) bool {
	select {
	case <-ready: // needs no timer
		return true
	default:
	}
	beat := a.call.beat
	for {
		timer := time.NewTimer(time.Until(beat.nextCheck(deadline)))
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
		if elapsed, due := beat.beatIfDue(); due {
			a.call.ReportProgress(elapsed.Seconds(), "an earlier call comes first")
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
func (a *sessionCall) releaseTurn() {
	if a.owner == nil || a.releasesOnDelivery {
		return
	}
	if a.outcome == outcomeDone {
		a.outcome = outcomeFailed
	}
	a.caller.releaseTurn(a.owner, a.outcomeNow())
}

// outcomeNow returns the call's outcome so far.
func (a *sessionCall) outcomeNow() callOutcome {
	if a.call.IsCancelled() {
		return outcomeCancelled
	}
	return a.outcome
}

// replyOutcome returns the outcome of a call that gets this reply.
func replyOutcome(r session.Reply) callOutcome {
	switch {
	case r.InputRequest != nil:
		return outcomeWaitsForInput
	case r.Outcome == timeline.OutcomeOK:
		return outcomeDone
	case r.Outcome == timeline.OutcomeError:
		return outcomeError
	case r.Outcome == timeline.OutcomeInterrupted:
		return outcomeInterrupted
	case r.Outcome != "", r.State == session.StateEnded:
		return outcomeSessionEnded
	default:
		return outcomeStillRuns
	}
}
