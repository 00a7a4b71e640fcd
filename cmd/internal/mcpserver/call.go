package mcpserver

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callHeader carries the number of a call through the SDK to its tool. No client
// can set it: each transport writes it anew.
const callHeader = "Turnstone-Call"

// A transport brings the client's calls. It hears of a cancel before the SDK does,
// and knows whether the client gets an answer; tools learn both from the call.
type transport interface {
	// callOf is the call that the SDK hands to a tool. ok is false when the client
	// has given it up already.
	callOf(ctx context.Context, req *mcp.CallToolRequest) (c *call, ok bool)
}

// A call is a call of a tool, from its arrival until it is certain whether the
// client is given the answer.
type call struct {
	token json.RawMessage // for progress; nil when the client did not ask

	// notify writes one message about progress. Its error is not reported: the
	// answer will meet the same one.
	notify func(progressParams)

	// arrival is the call's place among those of its client, until its session is
	// found; nil when it is no call of a tool.
	arrival *place

	mu        sync.Mutex
	cancelled bool             // guarded by mu
	last      uint64           // guarded by mu; the number of the call that had come last when this one was over or cancelled
	over      bool             // guarded by mu; settle was called
	settled   func(given bool) // guarded by mu; nil when nobody wants to know
	late      func(given bool) // guarded by mu; settled, when the answer was not given but may be yet
}

// cancel takes in that the client has given the call up. From here on nothing is
// sent for it. It is too late when the answer is being written.
func (c *call) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && !c.cancelled {
		c.cancelled, c.last = true, c.arrival.latest()
	}
}

// number is the call's in the order in which its client made them; 0 when it has none.
func (c *call) number() uint64 {
	if c.arrival == nil {
		return 0
	}
	return c.arrival.number
}

// outlived is the number of the last call that came before this one was answered or
// given up, as far as that is known by now.
func (c *call) outlived() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.cancelled {
		return c.last
	}
	return c.arrival.latest()
}

// isCancelled reports whether the client has given the call up.
func (c *call) isCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// whenSettled has f called when it is certain whether the client is given the
// answer: right before it is written, or when it is dropped. It is called once more,
// with true, when the client comes back and gets the answer after all.
func (c *call) whenSettled(f func(given bool)) {
	c.mu.Lock()
	if !c.over {
		c.settled = f
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	f(false)
}

// settle says that the answer is about to be written, if the client has not given
// the call up, or that it never will be. It returns whether to write it. Only the
// first settle counts.
func (c *call) settle(reachable bool) (write bool) {
	c.mu.Lock()
	given := reachable && !c.cancelled
	f := c.settled
	if !given && !c.cancelled {
		c.late = f
	}
	if !c.over && !c.cancelled {
		c.last = c.arrival.latest()
	}
	c.over, c.settled = true, nil
	c.mu.Unlock()
	c.arrival.leave()
	if f != nil {
		f(given)
	}
	return given
}

// settleLate says that the client has come back for the answer.
func (c *call) settleLate() {
	c.mu.Lock()
	f := c.late
	c.late = nil
	c.mu.Unlock()
	if f != nil {
		f(true)
	}
}

// settleResult is settle for a transport that is about to write it knows not what.
// A tool asks whenSettled last: what is written before that is progress.
func (c *call) settleResult() {
	c.mu.Lock()
	ready := c.settled != nil
	c.mu.Unlock()
	if ready {
		c.settle(true)
	}
}

// progress tells the client how far the call is. It does nothing when the client
// did not ask, or has given the call up.
func (c *call) progress(progress float64, text string) {
	if c.token != nil && !c.isCancelled() {
		c.notify(progressParams{Token: c.token, Progress: progress, Message: text})
	}
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
}

// isNameOrNumber reports whether a JSON value may be an id or a progress token.
func isNameOrNumber(v json.RawMessage) bool {
	return len(v) > 0 && (v[0] == '"' || v[0] == '-' || '0' <= v[0] && v[0] <= '9')
}
