package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// A toolRequest is a call of a tool, with facts about its client.
type toolRequest struct {
	*mcptransport.ToolCall
	sdk  *mcp.CallToolRequest
	beat *reply.Heartbeat // of the whole call

	codex *clientprofile.CodexState // nil from other clients

	defaultCallWait time.Duration // Options.CallWait

	unknownNames  []string                  // arguments that the tool does not have
	sessionTicket *mcptransport.QueueTicket // in the queue of its session, until the call has started; nil without a session
}

// joinSession finds the session of a call and puts the call into that session's queue, in the
// order in which calls arrive.
func (r *toolRequest) joinSession(ctx context.Context, find func() (*callerstate.CallerSession, error)) (*callerstate.CallerSession, error) {
	defer r.Arrival.Leave()
	select {
	case <-r.Arrival.Ready():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := find()
	if err == nil {
		r.sessionTicket = v.JoinQueue()
		r.MarkStarted()
	}
	return v, err
}

// clientProfile returns the profile of the client, or a zero one.
func (r *toolRequest) clientProfile() clientprofile.Profile {
	if info := r.sdk.ClientInfo(); info != nil {
		return clientprofile.ForClient(info.Name)
	}
	return clientprofile.Profile{}
}

// replyBudget returns the bounds of the text that reaches the client's model.
func (r *toolRequest) replyBudget() clientprofile.TextBudget { return r.clientProfile().ReplyBudget() }

// maxCallTime returns how long the client waits for a call.
func (r *toolRequest) maxCallTime() time.Duration {
	return r.clientProfile().MaxCallTime(r.defaultCallWait)
}

// boundedTimeout returns how long a call waits: as long as it asks for, within bounds, but never
// longer than its client waits.
func (r *toolRequest) boundedTimeout(name string, ms *float64) (time.Duration, error) {
	asked, err := parseTimeout(name, ms)
	return min(asked, r.maxCallTime()), err
}

// protectText makes the client show its model the first text of a result.
func (r *toolRequest) protectText(result *mcp.CallToolResult) {
	if len(result.Content) == 0 {
		return
	}
	if first, ok := result.Content[0].(*mcp.TextContent); ok {
		first.Text = r.clientProfile().ProtectText(first.Text)
	}
}

// leaveQueues lets the next call in each queue start.
func (r *toolRequest) leaveQueues() {
	r.Arrival.Leave()
	r.sessionTicket.Leave()
}
