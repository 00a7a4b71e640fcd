package mcptransport

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

const (
	// maxClients bounds the MCP sessions. One more ends the client that has been disconnected
	// longest.
	maxClients = 32

	// maxOpenCalls bounds the open calls of one MCP session.
	maxOpenCalls = 64
)

// An httpClient is a client over HTTP, known by its MCP session. It sees only its own REPL
// sessions.
type httpClient struct {
	front *httpFront
	id    string // of the MCP session
	tools Tools
	sdk   *mcp.Server

	arrivals Queue // the queue of its calls

	openRequests int              // guarded by front.mu; requests being served
	idleSince    time.Time        // guarded by front.mu; when the last request ended
	idleTimer    *time.Timer      // guarded by front.mu; runs between requests, and ends the client
	eventReader  *exchange        // guarded by front.mu; the last request to read the stream that belongs to no call
	callNumbers  map[string]int64 // guarded by front.mu; open calls by the keys of their ids
	ended        bool             // guarded by front.mu
	drained      chan struct{}    // closed when the client has ended and every call is answered
}

// newClient creates a client for a request, which must release it.
func (f *httpFront) newClient() (*httpClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errShuttingDown
	}
	if len(f.clients) >= maxClients && !f.evictIdleLocked() {
		return nil, fmt.Errorf("too many clients (%d); disconnect one", maxClients)
	}
	f.clientCount++
	c := &httpClient{front: f, id: rand.Text(), openRequests: 1, callNumbers: make(map[string]int64), drained: make(chan struct{})}
	c.tools = f.newTools(ServedClient{Calls: f, Number: f.clientCount})
	c.sdk = c.tools.NewSDKServer(func() string { return c.id })
	c.idleTimer = time.AfterFunc(f.idleTimeout, func() { f.endIfIdle(c) })
	c.idleTimer.Stop()
	f.clients[c.id] = c
	return c, nil
}

// evictIdleLocked ends the client that has been disconnected longest. It returns false if every
// client is connected.
func (f *httpFront) evictIdleLocked() bool {
	var oldest *httpClient
	for _, c := range f.clients {
		if c.openRequests == 0 && (oldest == nil || c.idleSince.Before(oldest.idleSince)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	f.logger.Warn("idle client evicted", "bound", maxClients)
	f.endClientLocked(oldest)
	return true
}

// findClient returns the client of an MCP session, or nil. The request must release it.
func (f *httpFront) findClient(id string) *httpClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clients[id]
	if c != nil {
		c.openRequests++
		c.idleTimer.Stop()
	}
	return c
}

// releaseRequest ends a request of the client.
func (c *httpClient) releaseRequest() {
	f := c.front
	f.mu.Lock()
	defer f.mu.Unlock()
	c.openRequests--
	if c.openRequests == 0 && !c.ended {
		c.idleSince = time.Now()
		c.idleTimer.Reset(f.idleTimeout)
	}
}

// finishInitialize runs after the initialize request of an MCP session.
func (c *httpClient) finishInitialize() {
	for range c.sdk.Sessions() {
		if c.front.claimSpare(c) {
			c.tools.OpenAhead()
		}
		return
	}
	c.front.endClient(c) // the SDK has refused it
}

// claimSpare reports whether to open sessions for a new client in advance. Many clients connect and
// never call, so at most one client has unused sessions.
func (f *httpFront) claimSpare(c *httpClient) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spareClient != nil && !f.spareClient.ended && !f.spareClient.tools.IsUsed() {
		return false
	}
	f.spareClient = c
	return true
}

func (f *httpFront) endIfIdle(c *httpClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.openRequests == 0 {
		f.endClientLocked(c)
	}
}

// endClient ends a client, without waiting for its calls.
func (f *httpFront) endClient(c *httpClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endClientLocked(c)
}

func (f *httpFront) endClientLocked(c *httpClient) {
	if c.ended {
		return
	}
	c.ended = true
	c.idleTimer.Stop()
	delete(f.clients, c.id)
	c.checkDrainedLocked()
	f.endingClients.Go(c.close)
}

// close closes the client's tools, which ends its calls. It waits for their answers, but not for
// a connection that does not read them.
func (c *httpClient) close() {
	c.tools.Close()
	timeout := time.NewTimer(lastWritesTimeout)
	defer timeout.Stop()
	select {
	case <-c.drained:
	case <-timeout.C:
		for _, call := range c.openCalls() { // a tool may be waiting for the outcome
			call.Deliver(false)
		}
	}
	for session := range c.sdk.Sessions() {
		_ = session.Close() // cannot fail: the session has no stream of this package
	}
}

// openCalls returns the calls that are not answered yet.
func (c *httpClient) openCalls() []*ToolCall {
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	var open []*ToolCall
	for _, number := range c.callNumbers {
		open = append(open, c.front.calls[number])
	}
	return open
}

func (c *httpClient) checkDrainedLocked() {
	if c.ended && len(c.callNumbers) == 0 {
		close(c.drained)
	}
}

var (
	errShuttingDown = errors.New("the server is shutting down")
	errIDInUse      = errors.New("the id is in use by a call that is not answered yet")
)

// registerCall adds a call to the open calls of the client.
func (c *httpClient) registerCall(x *exchange, m *jsonrpc2.Message) (number int64, err error) {
	f := c.front
	f.mu.Lock()
	defer f.mu.Unlock()
	id := jsonrpc2.IDKey(m.ID)
	if _, taken := c.callNumbers[id]; taken {
		return 0, errIDInUse
	}
	if len(c.callNumbers) >= maxOpenCalls {
		return 0, fmt.Errorf("too many open calls (%d); wait for an answer", maxOpenCalls)
	}
	if c.ended {
		return 0, errShuttingDown
	}
	x.call = &ToolCall{token: jsonrpc2.ProgressToken(m.Params), onSeen: x.startKeepAlive, isSingleMessage: x.isSingleMessage}
	number, err = f.numberCallLocked(x.call)
	if err != nil {
		return 0, err
	}
	x.call.Arrival = c.arrivals.Join()
	c.callNumbers[id] = number
	x.onAnswered = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, number)
		delete(c.callNumbers, id)
		c.checkDrainedLocked()
	}
	return number, nil
}

// cancelCall cancels an open call of the client. It ignores unknown ids.
func (c *httpClient) cancelCall(params json.RawMessage) {
	c.front.mu.Lock()
	call := c.front.calls[c.callNumbers[jsonrpc2.CancelledKey(params)]]
	c.front.mu.Unlock()
	if call != nil {
		call.Cancel()
	}
}
