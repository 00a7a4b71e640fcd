package mcpwire

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

// A client is one MCP session over HTTP. It sees only its own sessions.
type client struct {
	front *front
	id    string // of the MCP session
	tools Tools
	sdk   *mcp.Server

	arrivals Queue // the queue of its calls

	requests int              // guarded by front.mu; how many requests are being served
	since    time.Time        // guarded by front.mu; when the last request ended
	leave    *time.Timer      // guarded by front.mu; runs between requests, and ends the client
	listener *exchange        // guarded by front.mu; the last request that reads the stream of no call
	numbers  map[string]int64 // guarded by front.mu; open calls by the keys of their ids
	ended    bool             // guarded by front.mu
	answered chan struct{}    // closed when the client has ended and no call is left to answer
}

// admit makes a client for a request. The request releases it later.
func (f *front) admit() (*client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errEnding
	}
	if len(f.clients) >= maxClients && !f.makeRoomLocked() {
		return nil, fmt.Errorf("too many clients (%d); disconnect one", maxClients)
	}
	f.made++
	c := &client{front: f, id: rand.Text(), requests: 1, numbers: make(map[string]int64), answered: make(chan struct{})}
	c.tools = f.newTools(Client{Calls: f, Number: f.made})
	c.sdk = c.tools.SDK(func() string { return c.id })
	c.leave = time.AfterFunc(f.idle, func() { f.endIfGone(c) })
	c.leave.Stop()
	f.clients[c.id] = c
	return c, nil
}

// makeRoomLocked ends the client that has been away for longest. It returns false if no client
// is away.
func (f *front) makeRoomLocked() bool {
	var oldest *client
	for _, c := range f.clients {
		if c.requests == 0 && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	f.logger.Warn("a client without a connection was ended, to make room for another", "bound", maxClients)
	f.endLocked(oldest)
	return true
}

// find returns the client of an MCP session, or nil. The request releases it later.
func (f *front) find(id string) *client {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clients[id]
	if c != nil {
		c.requests++
		c.leave.Stop()
	}
	return c
}

// release ends a request of the client.
func (c *client) release() {
	f := c.front
	f.mu.Lock()
	defer f.mu.Unlock()
	c.requests--
	if c.requests == 0 && !c.ended {
		c.since = time.Now()
		c.leave.Reset(f.idle)
	}
}

// initialized runs after the request that began the MCP session.
func (c *client) initialized() {
	for range c.sdk.Sessions() {
		if c.front.opensAhead(c) {
			c.tools.OpenAhead()
		}
		return
	}
	c.front.end(c) // the SDK has refused it
}

// opensAhead reports whether to open the tools of a new client ahead. Many clients connect and
// never call, so at most one client has unused tools.
func (f *front) opensAhead(c *client) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spare != nil && !f.spare.ended && !f.spare.tools.Used() {
		return false
	}
	f.spare = c
	return true
}

func (f *front) endIfGone(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.requests == 0 {
		f.endLocked(c)
	}
}

// end ends a client. It does not wait.
func (f *front) end(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endLocked(c)
}

func (f *front) endLocked(c *client) {
	if c.ended {
		return
	}
	c.ended = true
	c.leave.Stop()
	delete(f.clients, c.id)
	c.checkAnsweredLocked()
	f.ending.Go(c.close)
}

// close closes the client's tools, which ends its calls. It waits until those are answered,
// but not for a connection that takes no answer.
func (c *client) close() {
	c.tools.Close()
	timeout := time.NewTimer(lastWrites)
	defer timeout.Stop()
	select {
	case <-c.answered:
	case <-timeout.C:
		for _, call := range c.openCalls() { // a tool may wait to learn this
			call.Deliver(false)
		}
	}
	for session := range c.sdk.Sessions() {
		_ = session.Close() // it has no stream of ours, so it cannot fail
	}
}

// openCalls returns the calls without an answer.
func (c *client) openCalls() []*Call {
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	var open []*Call
	for _, number := range c.numbers {
		open = append(open, c.front.calls[number])
	}
	return open
}

func (c *client) checkAnsweredLocked() {
	if c.ended && len(c.numbers) == 0 {
		close(c.answered)
	}
}

var (
	errEnding = errors.New("the server is ending")
	errTaken  = errors.New("the id is in use by a call that is not answered yet")
)

// begin registers a call of the client.
func (c *client) begin(x *exchange, m *jsonline.Message) (number int64, err error) {
	f := c.front
	f.mu.Lock()
	defer f.mu.Unlock()
	id := jsonline.IDKey(m.ID)
	if _, taken := c.numbers[id]; taken {
		return 0, errTaken
	}
	if len(c.numbers) >= maxCalls {
		return 0, fmt.Errorf("%d calls of this client are not answered yet: wait for one", maxCalls)
	}
	if c.ended {
		return 0, errEnding
	}
	x.call = &Call{token: jsonline.ProgressToken(m.Params), seen: x.stayAlive, single: x.single}
	number, err = f.beginLocked(x.call)
	if err != nil {
		return 0, err
	}
	x.call.Arrival = c.arrivals.Join()
	c.numbers[id] = number
	x.answered = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, number)
		delete(c.numbers, id)
		c.checkAnsweredLocked()
	}
	return number, nil
}

// cancel marks a call that the client has given up. It ignores a cancel that names no open
// call.
func (c *client) cancel(params json.RawMessage) {
	c.front.mu.Lock()
	call := c.front.calls[c.numbers[jsonline.CancelledKey(params)]]
	c.front.mu.Unlock()
	if call != nil {
		call.Cancel()
	}
}
