package mcpwire

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StatelessVersion is the first version of the protocol in which a call stands for
// itself: there are no MCP sessions, and a server sends no requests.
const StatelessVersion = "2026-07-28"

// Tools are what one client is served. All methods may be called at the same time.
type Tools interface {
	// SDK makes the SDK's server, with the tools on it. sessionID names its MCP session;
	// nil where there are none.
	SDK(sessionID func() string) *mcp.Server

	// OpenAhead begins to open the things that a first call is likely to need.
	OpenAhead()

	// Used reports whether a call has used anything yet.
	Used() bool

	// Close ends everything that belongs to the client, and waits for that.
	Close()
}

// A Client is whom Tools are made for.
type Client struct {
	// Calls finds its calls.
	Calls Calls

	// Number tells it from the other clients of the same server; 0 for one that has the
	// server to itself, and for Shared.
	Number int

	// Shared says that it is all the callers that no connection identifies, so each
	// call must say what it is about. A thing that none of them uses for the time Idle is
	// to be ended.
	Shared bool
	Idle   time.Duration
}

// Calls brings the calls of clients to the tools. It hears of a cancel before the SDK
// does, and knows whether the client gets an answer; tools learn both from the Call.
type Calls interface {
	// Call is the call that the SDK hands to a tool. ok is false when the client has
	// given it up already.
	Call(ctx context.Context, req *mcp.CallToolRequest) (c *Call, ok bool)
}
