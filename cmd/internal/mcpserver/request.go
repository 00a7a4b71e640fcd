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
	sessionTicket *mcptransport.QueueTicket // in the queue of its session, until the call has started; nil without a session
}

// joinSession finds the session of a call and puts the call into that session's queue, in the
// order in which calls arrive.
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

// leaveQueues lets the next call in each queue start.
func (r *toolRequest) leaveQueues() {
	r.Arrival.Leave()
	r.sessionTicket.Leave()
}
