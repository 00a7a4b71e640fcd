package mcptransport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// Ordered is a transport that records the calls of tools as they are read, before the SDK hands
// them to goroutines. So tools learn the order of the calls, a cancel when it is read, and whether
// an answer was written. It changes no message that the client sends or gets.
type Ordered struct {
	Transport mcp.Transport // of one stream

	// QueueOf returns the queue of a tool, or false for a tool that is of no interest. The calls of
	// different queues do not wait for each other.
	QueueOf func(tool string) (queue string, ok bool)
}

// maxOrderedQueues bounds the queues of a connection, whose names its client chooses. The calls of
// further queues are not recorded.
const maxOrderedQueues = 16

// Connect implements mcp.Transport.
func (o *Ordered) Connect(ctx context.Context) (mcp.Connection, error) {
	if _, isHTTP := o.Transport.(*mcp.StreamableServerTransport); isHTTP {
		return nil, errors.New("a StreamableServerTransport has one stream for each request, and no order to keep")
	}
	conn, err := o.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &orderedConn{
		Connection: conn, queueOf: o.QueueOf, queues: make(map[string]*Queue), open: make(map[jsonrpc.ID]*orderedCall),
	}, nil
}

// SupportsProtocolVersion implements mcp.ProtocolVersionSupporter for the transport below.
func (o *Ordered) SupportsProtocolVersion(version string) bool {
	s, ok := o.Transport.(mcp.ProtocolVersionSupporter)
	return !ok || s.SupportsProtocolVersion(version)
}

// An orderedConn is the connection of an Ordered.
type orderedConn struct {
	mcp.Connection
	queueOf func(tool string) (queue string, ok bool)

	mu     sync.Mutex
	queues map[string]*Queue           // guarded by mu; at most maxOrderedQueues
	open   map[jsonrpc.ID]*orderedCall // guarded by mu; calls that are not answered yet
}

// An orderedCall is an open call, with the key under which its tool finds it.
type orderedCall struct {
	ToolCall
	key string
}

// orderedCalls has the open calls of all connections by their keys. The SDK passes nothing of a
// connection to a tool except text in a header. A key cannot be guessed, because clients over HTTP
// choose their headers.
var orderedCalls sync.Map // of *orderedCall

// orderedCallOf returns the call that an orderedConn has recorded for a request, or nil.
func orderedCallOf(extra *mcp.RequestExtra) *ToolCall {
	if extra == nil {
		return nil
	}
	c, ok := orderedCalls.Load(extra.Header.Get(callNumberHeader))
	if !ok {
		return nil
	}
	return &c.(*orderedCall).ToolCall
}

// Read implements mcp.Connection.
func (c *orderedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	switch {
	case r.Method == methodCallTool && r.IsCall():
		return c.recordCall(r), nil
	case r.Method == jsonrpc2.MethodCancelled && !r.IsCall():
		c.cancelCall(r.Params)
	}
	return r, nil
}

// recordCall puts a call into its queue, and returns the request with the call's key.
func (c *orderedConn) recordCall(r *jsonrpc.Request) *jsonrpc.Request {
	var params struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return r // the SDK refuses it
	}
	name, ok := c.queueOf(params.Name)
	if !ok {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queues[name]
	if queue == nil && len(c.queues) < maxOrderedQueues {
		queue = new(Queue)
		c.queues[name] = queue
	}
	if _, taken := c.open[r.ID]; taken || queue == nil {
		return r
	}
	call := &orderedCall{ToolCall: ToolCall{Arrival: queue.Join()}, key: rand.Text()}
	c.open[r.ID] = call
	orderedCalls.Store(call.key, call)
	extra := mcp.RequestExtra{}
	if had, ok := r.Extra.(*mcp.RequestExtra); ok && had != nil {
		extra = *had
	}
	header := extra.Header.Clone()
	if header == nil {
		header = make(map[string][]string)
	}
	header.Set(callNumberHeader, call.key)
	extra.Header = header
	with := *r
	with.Extra = &extra
	return &with
}

// cancelCall cancels an open call. It ignores unknown ids.
func (c *orderedConn) cancelCall(text json.RawMessage) {
	var params struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(text, &params) != nil {
		return
	}
	id, err := jsonrpc.MakeID(params.ID)
	if err != nil {
		return
	}
	c.mu.Lock()
	call := c.open[id]
	c.mu.Unlock()
	if call != nil {
		call.Cancel()
	}
}

// Write implements mcp.Connection. A client that gets an answer may call again at once, so a call
// learns of its answer before that is written.
func (c *orderedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if answer, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		call := c.open[answer.ID]
		delete(c.open, answer.ID)
		c.mu.Unlock()
		call.finish(answer.Error == nil)
	}
	return c.Connection.Write(ctx, m)
}

// Close implements mcp.Connection. The calls that are still open get no answer.
func (c *orderedConn) Close() error {
	err := c.Connection.Close()
	c.mu.Lock()
	open := slices.Collect(maps.Values(c.open))
	clear(c.open)
	c.mu.Unlock()
	for _, call := range open {
		call.finish(false)
	}
	return err
}

// finish forgets a call, which may be nil, and notifies it whether its answer is written.
func (o *orderedCall) finish(hasAnswer bool) {
	if o != nil {
		orderedCalls.Delete(o.key)
		o.Deliver(hasAnswer)
	}
}
