package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxHeld bounds the inputs that are held for one session: a further one is refused.
const maxHeld = 16

// An owner is the call that owns a session's turn. Its ownership begins before its input is
// submitted, and ends when it is certain whether the client gets the answer.
type owner struct {
	call  *mcpwire.Call
	begun chan struct{} // closed when the input is submitted, or was refused
	over  chan struct{} // see end
	ends  sync.Once     // closes over
	slow  bool          // guarded by view.mu; an input was held for it and refused
	spare uint64        // guarded by view.mu; the owner's fate does not affect calls from this number on; 0: see release
}

func newOwner(c *mcpwire.Call) *owner {
	return &owner{call: c, begun: make(chan struct{}), over: make(chan struct{})}
}

// end closes over: the call owns the turn no more, or it was cancelled, and the next reply can
// tell what the interrupt did.
func (o *owner) end() { o.ends.Do(func() { close(o.over) }) }

// A holding is an input that waits until the call before it is answered.
type holding struct {
	*owner
	decided chan struct{}
	refusal string // set with the decision; "" means that the input may be submitted
}

// claim makes a call the owner, or holds it. An input that a client sends before it has the
// answer to an earlier call was meant to follow that call: it runs when the earlier one has
// succeeded, and is refused otherwise.
func (v *view) claim(c *mcpwire.Call) *holding {
	h := &holding{
		owner:   newOwner(c),
		decided: make(chan struct{}),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case c.Number() <= v.spoiled:
		h.decide(v.spoiledBy)
	case v.owner == nil:
		v.owner = h.owner
		h.decide("")
	case v.owner.slow:
		h.decide(notAnswered)
	case len(v.held) == maxHeld:
		h.decide(fmt.Sprintf("%d others are held already", maxHeld))
	default:
		v.held = append(v.held, h)
	}
	return h
}

func (h *holding) decide(refusal string) {
	h.refusal = refusal
	close(h.decided)
}

// takeOver makes a call the owner of a turn that it has answered, or goes on with.
func (v *view) takeOver(c *mcpwire.Call) *owner {
	o := newOwner(c)
	close(o.begun)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.owner = o
	return o
}

// A fate is what became of a call.
type fate string

const (
	fateDone        fate = "" // the inputs behind the call may run
	fateFailed      fate = "failed"
	fateCancelled   fate = "was cancelled"
	fateNotRun      fate = "was not run"
	fateWaits       fate = "waits for input"
	fateAsksUser    fate = "waits for the user"
	fateError       fate = "ended in an error"
	fateInterrupted fate = "was interrupted"
	fateEnded       fate = "ended the session"
	fateRuns        fate = "still runs"
)

// refusal is the reason for refusing an input that came before the answer to the call.
func (f fate) refusal() string { return "an earlier call, which was not answered yet, " + string(f) }

// release ends a call's ownership of the turn. Every fate refuses the inputs that came before the
// call's answer, but for two: behind a call that is done they run as they were meant to, and a
// client that cancels a call cancels every other that it does not want.
func (v *view) release(o *owner, became fate) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer o.end()
	if v.owner != o {
		return
	}
	v.owner = nil
	if became != fateDone && became != fateCancelled {
		last := o.call.Outlived()
		if o.spare > 0 {
			last = min(last, o.spare-1)
		}
		v.spoilLocked(last, became.refusal())
	}
	v.nextLocked()
}

// spoilLocked refuses the inputs of calls up to a number.
func (v *view) spoilLocked(last uint64, why string) {
	if last > v.spoiled {
		v.spoiled, v.spoiledBy = last, why
	}
	var left []*holding
	for _, h := range v.held {
		if h.call.Number() <= last {
			h.decide(why)
		} else {
			left = append(left, h)
		}
	}
	v.held = left
}

// nextLocked lets the first held input be submitted, if no call owns the turn.
func (v *view) nextLocked() {
	if v.owner == nil && len(v.held) > 0 {
		h := v.held[0]
		v.held = v.held[1:]
		v.owner = h.owner
		h.decide("")
	}
}

// drop removes a held call, if it is still held. If it was not cancelled, later inputs are
// refused too, and their client is told what runs.
func (v *view) drop(h *holding) (dropped bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, other := range v.held {
		if other != h {
			continue
		}
		v.held = append(v.held[:i:i], v.held[i+1:]...)
		if !h.call.IsCancelled() {
			if v.owner != nil {
				v.owner.slow = true
			}
			behind := v.held[i:]
			v.held = v.held[:i]
			for _, other := range behind {
				other.decide("the one before it was not run")
			}
		}
		return true
	}
	return false
}

// cutOff is called by a call that is about to end the running turn. It waits until an
// input that is being submitted has been, and refuses those that are held: they came
// before the call. Inputs behind the call are not affected.
func (v *view) cutOff(ctx context.Context, c *mcpwire.Call) {
	v.mu.Lock()
	o, number := v.owner, c.Number()
	if o != nil && number > 0 && (o.spare == 0 || number < o.spare) {
		o.spare = number
	}
	if number > 0 {
		v.spoilLocked(number-1, "a later call stopped what ran before it")
		if v.spoiled >= number {
			v.spoiled = number - 1
		}
	}
	v.mu.Unlock()
	if o != nil {
		select {
		case <-o.begun:
		case <-ctx.Done():
		}
	}
}

// afterCancelled waits, for a bounded time, until the turn of a cancelled call is interrupted,
// so that the next reply can say so. It returns false when ctx ends.
func (v *view) afterCancelled(ctx context.Context, mine *owner) bool {
	v.mu.Lock()
	o := v.owner
	v.mu.Unlock()
	if o == nil || o == mine || !o.call.IsCancelled() {
		return true
	}
	select {
	case <-o.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitEarlierCalls waits until the calls about the same session that came before have begun. When
// it returns false, ctx has ended or the deadline passed.
func (a *sessionCall) awaitEarlierCalls(ctx context.Context) bool {
	return a.awaitOther(ctx, a.call.lane.First(), a.deadline)
}

// notAnswered is the reason for refusing an input that was held for too long.
const notAnswered = "an earlier call is not answered yet"

// takeTurn makes the call the owner of the session's next turn. When it returns false,
// there is a result, which is nil when ctx ended.
func (a *sessionCall) takeTurn(ctx context.Context) (bool, *mcp.CallToolResult) {
	h := a.view.claim(a.call.Call)
	select {
	case <-h.decided:
	default:
		a.call.lane.Leave()
		until := a.deadline
		if holds := a.call.manner().holds; holds > 0 {
			until = earlier(until, time.Now().Add(holds))
		}
		if !a.awaitOther(ctx, h.decided, until) && a.view.drop(h) {
			if ctx.Err() != nil {
				return false, nil
			}
			return false, a.replyRefused(ctx, notAnswered)
		}
		<-h.decided
	}
	if h.refusal != "" {
		return false, a.replyRefused(ctx, h.refusal)
	}
	a.owner = h.owner
	return true, nil
}

// replyRefused tells the caller that its input was not run, and why.
func (a *sessionCall) replyRefused(ctx context.Context, why string) *mcp.CallToolResult {
	a.refuse(why)
	return a.replyNow(ctx, a.now)
}

// awaitOther waits until ready or the deadline, with progress for the client.
func (a *sessionCall) awaitOther(ctx context.Context, ready <-chan struct{}, deadline time.Time) bool {
	select {
	case <-ready: // no timer when it is
		return true
	default:
	}
	beat := a.call.beat
	for {
		timer := time.NewTimer(time.Until(beat.next(deadline)))
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
		if elapsed, due := beat.due(); due {
			a.call.Progress(elapsed.Seconds(), "an earlier call comes first")
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// releaseTurn ends the call's ownership of a turn, unless a reply does that when it is delivered.
func (a *sessionCall) releaseTurn() {
	if a.owner == nil || a.told {
		return
	}
	if a.fate == fateDone {
		a.fate = fateFailed
	}
	a.view.release(a.owner, a.fateNow())
}

// fateNow returns the call's fate so far.
func (a *sessionCall) fateNow() fate {
	if a.call.IsCancelled() {
		return fateCancelled
	}
	return a.fate
}

// fateOf returns the fate of a call that gets this reply.
func fateOf(r session.Reply) fate {
	switch {
	case r.InputRequest != nil:
		return fateWaits
	case r.Outcome == timeline.OutcomeOK:
		return fateDone
	case r.Outcome == timeline.OutcomeError:
		return fateError
	case r.Outcome == timeline.OutcomeInterrupted:
		return fateInterrupted
	case r.Outcome != "", r.State == session.StateEnded:
		return fateEnded
	default:
		return fateRuns
	}
}
