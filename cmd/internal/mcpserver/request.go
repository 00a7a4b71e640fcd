package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
)

// A request is a call of a tool, with facts about its client.
type request struct {
	*mcpwire.Call
	sdk  *mcp.CallToolRequest
	beat *heartbeat // of the whole call

	codex *codexState // nil from other clients

	unknownWait time.Duration // Options.CallWait

	unknown []string       // arguments that the tool does not have
	lane    *mcpwire.Place // among the calls about the same session, until this one has begun; nil when it is about none
}

// named finds the session that a call is about, and the call's place in that session's queue.
// It does both in the order in which the calls came.
func (r *request) named(ctx context.Context, find func() (*view, error)) (*view, error) {
	defer r.Arrival.Leave()
	select {
	case <-r.Arrival.First():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := find()
	if err == nil {
		r.lane = v.lane.Join()
		r.Begin()
	}
	return v, err
}

// letNextPass lets the next call in the queue begin.
func (r *request) letNextPass() {
	r.Arrival.Leave()
	r.lane.Leave()
}
