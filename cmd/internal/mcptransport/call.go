package mcptransport

import (
	"encoding/json"
	"sync"
)

// callNumberHeader carries a call's number through the NewSDKServer to its tool. Clients cannot set it,
// because each transport overwrites it.
const callNumberHeader = "Turnstone-Call"

// A Call is a call of a tool. It lasts from its arrival until it is certain whether the client
// gets the answer.
type Call struct {
	token json.RawMessage // for progress; nil when the client did not ask

	// notify writes one message about progress. It reports no error, since the answer will
	// meet the same one.
	notify func(progressParams)

	onSeen func() // called when a tool gets the call; may be nil

	isSingleMessage bool // the client takes the answer alone

	// Arrival is the call's place among the calls of its client, until the tool knows the
	// call's session. It is nil for other requests.
	Arrival *QueueTicket

	mu             sync.Mutex
	started        bool                 // guarded by mu; Begin was called
	cancelled      bool                 // guarded by mu
	newestAtEnd    uint64               // guarded by mu; the client's newest call when this one was over or cancelled
	delivered      bool                 // guarded by mu; Deliver was called
	onDelivery     func(delivered bool) // guarded by mu; nil when no tool wants to know
	onLateDelivery func(delivered bool) // guarded by mu; delivery, for an answer that the client may still fetch
}

// Cancel notes that the client has given up the call. From now on the client gets nothing for
// it. Cancel has no effect once the answer is being written.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.delivered && !c.cancelled {
		c.cancelled, c.newestAtEnd = true, c.Arrival.newestPosition()
		if !c.started {
			c.Arrival.markLost(c.newestAtEnd)
		}
	}
}

// MarkStarted notes that a tool knows what the call is about. A call that is cancelled before is lost: no
// tool may ever see it.
func (c *Call) MarkStarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = true
}

// FollowsLostCall reports whether the client sent the call before it cancelled an earlier one that was
// lost. Nobody can say then what that one would have done to the state that this one is for.
func (c *Call) FollowsLostCall() bool { return c.Arrival.followsLost() }

// Number returns the call's number in the order of its client's calls; 0 without one.
func (c *Call) Number() uint64 {
	if c.Arrival == nil {
		return 0
	}
	return c.Arrival.position
}

// NewestOverlapping returns the number of the newest call that came before this one was answered or
// given up, as far as is known now.
func (c *Call) NewestOverlapping() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivered || c.cancelled {
		return c.newestAtEnd
	}
	return c.Arrival.newestPosition()
}

// IsCancelled reports whether the client has given up the call.
func (c *Call) IsCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// OnDelivery makes the transport call f when it is certain whether the client gets the answer:
// just before the answer is written, or when it is dropped. f is called again, with true, if
// the client comes back and gets the answer after all. A tool calls OnDelivery last, because
// the transport takes everything written before for progress.
func (c *Call) OnDelivery(f func(delivered bool)) {
	c.mu.Lock()
	if !c.delivered {
		c.onDelivery = f
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	f(false)
}

// Deliver tells the call that its answer is about to be written, or, if reachable is false,
// that it never will be. It returns whether to write the answer: not if the client has given
// up the call. Only the first Deliver counts.
func (c *Call) Deliver(reachable bool) (write bool) {
	c.mu.Lock()
	delivered := reachable && !c.cancelled
	f := c.onDelivery
	if !delivered && !c.cancelled {
		c.onLateDelivery = f
	}
	if !c.delivered && !c.cancelled {
		c.newestAtEnd = c.Arrival.newestPosition()
	}
	c.delivered, c.onDelivery = true, nil
	c.mu.Unlock()
	c.Arrival.Leave()
	if f != nil {
		f(delivered)
	}
	return delivered
}

// deliverLate tells the call that the client has come back for the answer.
func (c *Call) deliverLate() {
	c.mu.Lock()
	f := c.onLateDelivery
	if c.onLateDelivery = nil; f != nil {
		c.newestAtEnd = c.Arrival.newestPosition()
	}
	c.mu.Unlock()
	if f != nil {
		f(true)
	}
}

// deliverIfReady is Deliver for a transport that cannot tell the answer from progress. Once
// the tool has called OnDelivery, the next message is the answer.
func (c *Call) deliverIfReady() {
	c.mu.Lock()
	ready := c.onDelivery != nil
	c.mu.Unlock()
	if ready {
		c.Deliver(true)
	}
}

// CanAskClient reports whether the server can ask the client something before the answer.
func (c *Call) CanAskClient() bool { return !c.isSingleMessage }

// WantsProgress reports whether the client has asked for progress.
func (c *Call) WantsProgress() bool { return c.token != nil }

// ReportProgress sends progress to the client. It does nothing if the client did not ask for it, or
// has given up the call.
func (c *Call) ReportProgress(progress float64, text string) {
	if c.token != nil && !c.IsCancelled() {
		c.notify(progressParams{Token: c.token, Progress: progress, Message: text})
	}
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
}
