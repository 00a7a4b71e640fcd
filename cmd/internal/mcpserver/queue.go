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
func (cs *callerSession) claimTurn(c *mcptransport.ToolCall) *queuedCall {
	h := &queuedCall{
		turnOwner: newTurnOwner(c),
		decided:   make(chan struct{}),
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.Number() <= cs.rejectedUpTo:
		h.setDecision(cs.rejectReason)
	case cs.owner == nil:
		cs.owner = h.turnOwner
		h.setDecision("")
	case cs.owner.refusesQueued:
		h.setDecision(reasonNotAnswered)
	case len(cs.queued) == maxQueued:
		h.setDecision(fmt.Sprintf("%d other inputs are queued already", maxQueued))
	default:
		cs.queued = append(cs.queued, h)
	}
	return h
}

func (c *queuedCall) setDecision(refusal string) {
	c.refusal = refusal
	close(c.decided)
}

// takeOverTurn makes a call the owner of a turn that it has answered or continues.
func (cs *callerSession) takeOverTurn(c *mcptransport.ToolCall) *turnOwner {
	o := newTurnOwner(c)
	close(o.submitted)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.owner = o
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
func (cs *callerSession) releaseTurn(o *turnOwner, outcome callOutcome) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	defer o.endOwnership()
	if cs.owner != o {
		return
	}
	cs.owner = nil
	if outcome != outcomeDone && outcome != outcomeCancelled {
		last := o.call.NewestOverlapping()
		if o.sparedFrom > 0 {
			last = min(last, o.sparedFrom-1)
		}
		cs.rejectQueuedLocked(last, outcome.refusalReason())
	}
	cs.startNextLocked()
}

// rejectQueuedLocked refuses the inputs of calls up to a number.
func (cs *callerSession) rejectQueuedLocked(last uint64, why string) {
	if last > cs.rejectedUpTo {
		cs.rejectedUpTo, cs.rejectReason = last, why
	}
	var left []*queuedCall
	for _, h := range cs.queued {
		if h.call.Number() <= last {
			h.setDecision(why)
		} else {
			left = append(left, h)
		}
	}
	cs.queued = left
}

// startNextLocked makes the first queued input the owner, if no call owns the turn.
func (cs *callerSession) startNextLocked() {
	if cs.owner == nil && len(cs.queued) > 0 {
		h := cs.queued[0]
		cs.queued = cs.queued[1:]
		cs.owner = h.turnOwner
		h.setDecision("")
	}
}

// dropQueued removes a call from the queue, if it is still there. Unless the call was cancelled,
// later inputs are also refused, and their client learns what runs.
func (cs *callerSession) dropQueued(h *queuedCall) (dropped bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for i, other := range cs.queued {
		if other != h {
			continue
		}
		cs.queued = append(cs.queued[:i:i], cs.queued[i+1:]...)
		if !h.call.IsCancelled() {
			if cs.owner != nil {
				cs.owner.refusesQueued = true
			}
			behind := cs.queued[i:]
			cs.queued = cs.queued[:i]
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
func (cs *callerSession) rejectEarlierInputs(ctx context.Context, c *mcptransport.ToolCall) {
	cs.mu.Lock()
	o, number := cs.owner, c.Number()
	if o != nil && number > 0 && (o.sparedFrom == 0 || number < o.sparedFrom) {
		o.sparedFrom = number
	}
	if number > 0 {
		cs.rejectQueuedLocked(number-1, "a later call stopped what ran before it")
		if cs.rejectedUpTo >= number {
			cs.rejectedUpTo = number - 1
		}
	}
	cs.mu.Unlock()
	if o != nil {
		select {
		case <-o.submitted:
		case <-ctx.Done():
		}
	}
}

// awaitCancelled waits, for a bounded time, until the turn of a cancelled call is interrupted, so
// that the next reply can report it. It returns false if ctx ends.
func (cs *callerSession) awaitCancelled(ctx context.Context, mine *turnOwner) bool {
	cs.mu.Lock()
	o := cs.owner
	cs.mu.Unlock()
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
func (sc *sessionCall) awaitEarlierCalls(ctx context.Context) bool {
	return sc.awaitWithProgress(ctx, sc.call.sessionTicket.Ready(), sc.deadline)
}

// reasonNotAnswered is the reason for refusing an input that was queued for too long.
const reasonNotAnswered = "an earlier call is not answered yet"

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
			return false, sc.replyRefused(ctx, reasonNotAnswered)
		}
		<-h.decided
	}
	if h.refusal != "" {
		return false, sc.replyRefused(ctx, h.refusal)
	}
	sc.owner = h.turnOwner
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
	if sc.outcome == outcomeDone {
		sc.outcome = outcomeFailed
	}
	sc.caller.releaseTurn(sc.owner, sc.outcomeNow())
}

// outcomeNow returns the call's outcome so far.
func (sc *sessionCall) outcomeNow() callOutcome {
	if sc.call.IsCancelled() {
		return outcomeCancelled
	}
	return sc.outcome
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
