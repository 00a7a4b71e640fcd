package mcpwire

import (
	"encoding/json"
	"sync"
)

// callHeader carries the number of a call through the SDK to its tool. No client
// can set it: each transport writes it anew.
const callHeader = "Turnstone-Call"

// A Call is a call of a tool, from its arrival until it is certain whether the
// client is given the answer.
type Call struct {
	token json.RawMessage // for progress; nil when the client did not ask

	// notify writes one message about progress. Its error is not reported: the
	// answer will meet the same one.
	notify func(progressParams)

	// Arrival is the call's place among those of its client, until the tool knows what
	// the call is about; nil when it is no call of a tool.
	Arrival *Place

	mu        sync.Mutex
	cancelled bool                 // guarded by mu
	last      uint64               // guarded by mu; the number of the call that had come last when this one was over or cancelled
	over      bool                 // guarded by mu; Deliver was called
	delivery  func(delivered bool) // guarded by mu; nil when nobody wants to know
	late      func(delivered bool) // guarded by mu; delivery, when the answer was not delivered but may be yet
}

// Cancel notes that the client has given the call up. From here on nothing is
// sent for it. It is too late when the answer is being written.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && !c.cancelled {
		c.cancelled, c.last = true, c.Arrival.latest()
	}
}

// Number returns the call's in the order in which its client made them; 0 when it has none.
func (c *Call) Number() uint64 {
	if c.Arrival == nil {
		return 0
	}
	return c.Arrival.number
}

// Outlived returns the number of the last call that came before this one was answered or
// given up, as far as that is known by now.
func (c *Call) Outlived() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.cancelled {
		return c.last
	}
	return c.Arrival.latest()
}

// IsCancelled reports whether the client has given the call up.
func (c *Call) IsCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// OnDelivery has f called when it is certain whether the client is given the
// answer: right before it is written, or when it is dropped. It is called once more,
// with true, when the client comes back and gets the answer after all. A tool calls it
// last: a transport takes everything written before for progress.
func (c *Call) OnDelivery(f func(delivered bool)) {
	c.mu.Lock()
	if !c.over {
		c.delivery = f
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	f(false)
}

// Deliver says that the answer is about to be written, if the client has not given
// the call up, or that it never will be. It returns whether to write it. Only the
// first Deliver counts.
func (c *Call) Deliver(reachable bool) (write bool) {
	c.mu.Lock()
	delivered := reachable && !c.cancelled
	f := c.delivery
	if !delivered && !c.cancelled {
		c.late = f
	}
	if !c.over && !c.cancelled {
		c.last = c.Arrival.latest()
	}
	c.over, c.delivery = true, nil
	c.mu.Unlock()
	c.Arrival.Leave()
	if f != nil {
		f(delivered)
	}
	return delivered
}

// deliverLate says that the client has come back for the answer.
func (c *Call) deliverLate() {
	c.mu.Lock()
	f := c.late
	c.late = nil
	c.mu.Unlock()
	if f != nil {
		f(true)
	}
}

// deliverIfReady is Deliver for a transport that cannot tell whether it is about to
// write the answer or progress: once the tool has called OnDelivery, it is the answer.
func (c *Call) deliverIfReady() {
	c.mu.Lock()
	ready := c.delivery != nil
	c.mu.Unlock()
	if ready {
		c.Deliver(true)
	}
}

// WantsProgress reports whether the client has asked to be told how far the call is.
func (c *Call) WantsProgress() bool { return c.token != nil }

// Progress tells the client how far the call is. It does nothing when the client
// did not ask, or has given the call up.
func (c *Call) Progress(progress float64, text string) {
	if c.token != nil && !c.IsCancelled() {
		c.notify(progressParams{Token: c.token, Progress: progress, Message: text})
	}
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
}
