package callorder

import "fmt"

// maxQueued bounds the inputs that are queued for one session; further ones are refused.
const maxQueued = 16

// ReasonNotAnswered is the reason for refusing an input that was queued for too long.
const ReasonNotAnswered = "an earlier call is not answered yet"

// A TurnQueue orders the calls of a caller that run code in a session. C identifies a call. Calls
// are numbered in the order of their arrival; 0 means that the order is not known. The zero value
// is empty.
type TurnQueue[C comparable] struct {
	owner        *turn[C]  // nil if no call owns the turn
	queued       []turn[C] // in order, at most maxQueued; nil without an owner
	rejectedUpTo uint64    // the inputs of calls up to this number are refused
	rejectReason string    // why they are refused
}

// A turn is a call that owns the session's turn or waits for it.
type turn[C comparable] struct {
	call   C
	number uint64

	// Only an owner uses these two fields.
	refusesQueued bool   // an input queued behind it was refused
	sparedFrom    uint64 // its outcome does not affect calls from this number on; 0 affects all
}

// A Decision says that a call now owns the turn, or that its input is refused.
type Decision[C comparable] struct {
	Call    C
	Refusal string // "" means that the input may be submitted
}

// Owner returns the call that owns the turn. ok is false if none does.
func (q *TurnQueue[C]) Owner() (call C, ok bool) {
	if q.owner == nil {
		return call, false
	}
	return q.owner.call, true
}

// Join makes a call the owner, refuses it, or queues it. A client that sends an input before the
// answer to an earlier call means it to follow that call. So the input runs if the earlier call
// succeeds, and is refused otherwise.
func (q *TurnQueue[C]) Join(call C, number uint64) []Decision[C] {
	joined := turn[C]{call: call, number: number}
	refusal := ""
	switch {
	case number <= q.rejectedUpTo:
		refusal = q.rejectReason
	case q.owner == nil:
		q.owner = &joined
	case q.owner.refusesQueued:
		refusal = ReasonNotAnswered
	case len(q.queued) == maxQueued:
		refusal = fmt.Sprintf("%d other inputs are queued already", maxQueued)
	default:
		q.queued = append(q.queued, joined)
		return nil
	}
	return []Decision[C]{{call, refusal}}
}

// TakeOver makes a call the owner of a turn that it has answered or continues.
func (q *TurnQueue[C]) TakeOver(call C, number uint64) {
	q.owner = &turn[C]{call: call, number: number}
}

// Release ends a call's ownership of the turn, if it has it. Most outcomes refuse the inputs that
// came before the call's answer, which are those up to the number last. After a call that is done,
// these inputs run as intended. After a cancelled call they run too: a client cancels each call
// that it does not want.
func (q *TurnQueue[C]) Release(call C, outcome CallOutcome, last uint64) []Decision[C] {
	if q.owner == nil || q.owner.call != call {
		return nil
	}
	spared := q.owner.sparedFrom
	q.owner = nil
	var decisions []Decision[C]
	if outcome != OutcomeDone && outcome != OutcomeCancelled {
		if spared > 0 {
			last = min(last, spared-1)
		}
		decisions = q.reject(last, outcome.RefusalReason())
	}
	return append(decisions, q.next()...)
}

// reject refuses the inputs of calls up to a number.
func (q *TurnQueue[C]) reject(last uint64, why string) (decisions []Decision[C]) {
	if last > q.rejectedUpTo {
		q.rejectedUpTo, q.rejectReason = last, why
	}
	var left []turn[C]
	for _, t := range q.queued {
		if t.number <= last {
			decisions = append(decisions, Decision[C]{t.call, why})
		} else {
			left = append(left, t)
		}
	}
	q.queued = left
	return decisions
}

// next makes the first queued input the owner, if no call owns the turn.
func (q *TurnQueue[C]) next() []Decision[C] {
	if q.owner != nil || len(q.queued) == 0 {
		return nil
	}
	first := q.queued[0]
	q.queued = q.queued[1:]
	q.owner = &first
	return []Decision[C]{{Call: first.call}}
}

// Drop removes a call from the queue, if it is still there. Unless the call was cancelled, later
// inputs are also refused, and their client learns what runs.
func (q *TurnQueue[C]) Drop(call C, cancelled bool) (decisions []Decision[C], dropped bool) {
	for i, t := range q.queued {
		if t.call != call {
			continue
		}
		behind := q.queued[i+1:]
		q.queued = q.queued[:i:i]
		if cancelled {
			q.queued = append(q.queued, behind...)
			return nil, true
		}
		if q.owner != nil {
			q.owner.refusesQueued = true
		}
		for _, t := range behind {
			decisions = append(decisions, Decision[C]{t.call, "the one before it was not run"})
		}
		return decisions, true
	}
	return nil, false
}

// RejectBefore refuses the queued inputs that came before a call that is about to end the running
// turn. Later inputs are not affected, neither by this nor by the outcome of that turn.
func (q *TurnQueue[C]) RejectBefore(number uint64) []Decision[C] {
	if number == 0 {
		return nil
	}
	if q.owner != nil && (q.owner.sparedFrom == 0 || number < q.owner.sparedFrom) {
		q.owner.sparedFrom = number
	}
	decisions := q.reject(number-1, "a later call stopped what ran before it")
	if q.rejectedUpTo >= number {
		q.rejectedUpTo = number - 1
	}
	return decisions
}
