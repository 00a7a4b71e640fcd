package mcptransport

import (
	"encoding/json"
	"sync"
)

// callNumberHeader carries a call's number through the SDK to its tool. Clients cannot set it,
// because each transport overwrites it.
const callNumberHeader = "Turnstone-Call"

// A ToolCall is the state of a tools/call request. It lasts from its arrival until it is certain
// whether the client gets the answer.
type ToolCall struct {
	token json.RawMessage // for progress; nil when the client did not ask

	// notify writes one progress message. It reports no error, because writing the answer will
	// fail with the same one.
	notify func(progressParams)

	onSeen func() // called when a tool gets the call; may be nil

	isSingleMessage bool // the client accepts only the answer, no event stream
	followsContext  bool // only the context of the tool tells of a cancel, and nobody of the delivery

	// Arrival is the call's ticket in the queue of its client, until the tool knows the call's
	// session. It is nil for other requests.
	Arrival *QueueTicket

	mu             sync.Mutex
	started        bool                 // guarded by mu; MarkStarted was called
	cancelled      bool                 // guarded by mu
	newestAtEnd    uint64               // guarded by mu; the client's newest call when this one ended or was cancelled
	delivered      bool                 // guarded by mu; Deliver was called
	onDelivery     func(delivered bool) // guarded by mu; nil without an observer
	onLateDelivery func(delivered bool) // guarded by mu; onDelivery, for an answer that the client may still fetch
}

// Cancel records that the client has given up the call. From now on the client gets nothing for
// it. Cancel has no effect once the answer is being written.
func (c *ToolCall) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.delivered && !c.cancelled {
		c.cancelled, c.newestAtEnd = true, c.Arrival.newestPosition()
		if !c.started {
			c.Arrival.markLost(c.newestAtEnd)
		}
	}
}

// MarkStarted records that a tool knows the call's session. A call cancelled before that is lost,
// because no tool may ever see it.
func (c *ToolCall) MarkStarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = true
}

// FollowsLostCall reports whether the client sent this call before it cancelled an earlier one
// that was lost. This call may then rely on a state that the lost one never produced.
func (c *ToolCall) FollowsLostCall() bool { return c.Arrival.followsLost() }

// Number returns the call's number in the order of its client's calls, or 0 if it has none.
func (c *ToolCall) Number() uint64 {
	if c.Arrival == nil {
		return 0
	}
	return c.Arrival.position
}

// NewestOverlapping returns the number of the newest call that arrived before this one was
// answered or given up. While this one is open, the result may still grow.
func (c *ToolCall) NewestOverlapping() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivered || c.cancelled {
		return c.newestAtEnd
	}
	return c.Arrival.newestPosition()
}

// IsCancelled reports whether the client has given up the call.
func (c *ToolCall) IsCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// OnDelivery registers f. The transport calls it once it is certain whether the client gets the
// answer: just before writing the answer, or on dropping it. If the client reconnects and fetches
// a dropped answer, the transport calls f again, with true. A tool calls OnDelivery last, because
// the transport takes everything written before for progress.
func (c *ToolCall) OnDelivery(f func(delivered bool)) {
	c.mu.Lock()
	if !c.delivered {
		c.onDelivery = f
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	f(false)
}

// Deliver notifies the call that its answer is about to be written. If reachable is false, it will
// never be written. Deliver returns whether to write the answer, which is false if the client has
// given up the call. Only the first Deliver counts.
func (c *ToolCall) Deliver(reachable bool) (write bool) {
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

// deliverLate notifies the call that its client has reconnected and gets the answer.
func (c *ToolCall) deliverLate() {
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

// deliverIfReady is Deliver for a transport that cannot tell the answer from progress. Once the
// tool has called OnDelivery, the next message is the answer.
func (c *ToolCall) deliverIfReady() {
	c.mu.Lock()
	ready := c.onDelivery != nil
	c.mu.Unlock()
	if ready {
		c.Deliver(true)
	}
}

// CanAskClient reports whether the server can send the client a request before the answer.
func (c *ToolCall) CanAskClient() bool { return !c.isSingleMessage }

// WantsProgress reports whether the client asked for progress.
func (c *ToolCall) WantsProgress() bool { return c.token != nil }

// ReportProgress sends progress to the client. It does nothing if the client did not ask for
// progress, or has given up the call.
func (c *ToolCall) ReportProgress(progress float64, text string) {
	if c.token != nil && !c.IsCancelled() {
		c.notify(progressParams{Token: c.token, Progress: progress, Message: text})
	}
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
}
