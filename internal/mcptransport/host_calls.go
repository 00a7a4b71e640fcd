package mcptransport

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HostCalls finds the calls of one caller on the MCP server of another program, whose transport is
// not one of this package. The SDK passes calls on in goroutines, so their order is the order in
// which these begin. An answer counts as delivered if the tool has returned it and the client has
// not cancelled the call. [Ordered] gives the order and the delivery of the connection instead.
type HostCalls struct{ arrivals Queue }

// FindCall implements CallFinder.
func (h *HostCalls) FindCall(ctx context.Context, req *mcp.CallToolRequest) (*ToolCall, bool) {
	c := orderedCallOf(req.Extra)
	if c == nil {
		c = &ToolCall{Arrival: h.arrivals.Join(), followsContext: true}
	}
	if token := req.Params.GetProgressToken(); token != nil {
		c.token, _ = json.Marshal(token) // cannot fail: it was decoded from JSON
		c.notify = func(p progressParams) {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: p.Progress, Message: p.Message,
			})
		}
	}
	return c, ctx.Err() == nil && !c.IsCancelled()
}

// FollowContext returns the context for the tool of a call. If only ctx tells that the client has
// given up the call, the call is cancelled before the returned context ends. Call end when the tool
// has returned.
func (c *ToolCall) FollowContext(ctx context.Context) (_ context.Context, end func()) {
	if !c.followsContext {
		return ctx, func() {}
	}
	following, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		c.Cancel()
		cancel(context.Cause(ctx))
	})
	return following, func() {
		stop()
		cancel(nil)
	}
}

// ReturnAnswer notifies the call that its tool returns an answer, or none if hasAnswer is false. It
// has an effect only if nobody else learns whether the client gets the answer.
func (c *ToolCall) ReturnAnswer(hasAnswer bool) {
	if c.followsContext {
		c.Deliver(hasAnswer)
	}
}

// IsStateless reports whether the MCP session of a request ends with the request, as it does over
// HTTP without session ids. On a stream, there are no ids either, but also no HTTP header.
func IsStateless(req mcp.Request) bool {
	extra := req.GetExtra()
	return extra != nil && extra.Header != nil && req.GetSession().ID() == "" && orderedCallOf(extra) == nil
}
