package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
)

// A toolRequest is a call of a tool, with facts about its client.
type toolRequest struct {
	*mcptransport.ToolCall
	sdk  *mcp.CallToolRequest
	beat *heartbeat // of the whole call

	codex *codexState // nil from other clients

	defaultCallWait time.Duration // Options.CallWait

	unknownNames  []string                  // arguments that the tool does not have
	sessionTicket *mcptransport.QueueTicket // among the calls about the same session, until this one has begun; nil when it is about none
}

// joinSession finds the session that a call is about, and the call's place in that session's queue.
// It does both in the order in which the calls came.
func (r *toolRequest) joinSession(ctx context.Context, find func() (*callerSession, error)) (*callerSession, error) {
	defer r.Arrival.Leave()
	select {
	case <-r.Arrival.Ready():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := find()
	if err == nil {
		r.sessionTicket = v.callQueue.Join()
		r.MarkStarted()
	}
	return v, err
}

// leaveQueues lets the next call in the queue begin.
func (r *toolRequest) leaveQueues() {
	r.Arrival.Leave()
	r.sessionTicket.Leave()
}
