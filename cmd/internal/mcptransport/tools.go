package mcptransport

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StatelessVersion is the first version of the protocol without MCP sessions. Each call stands
// alone, and a server sends no requests.
const StatelessVersion = "2026-07-28"

// Tools serve one client. All methods may be called at the same time.
type Tools interface {
	// NewSDKServer makes the NewSDKServer's server with the tools. sessionID returns the id of its MCP session;
	// it is nil without MCP sessions.
	NewSDKServer(sessionID func() string) *mcp.Server

	// OpenAhead begins to open the things that a first call is likely to need.
	OpenAhead()

	// IsUsed reports whether a call has used anything yet.
	IsUsed() bool

	// Close ends everything that belongs to the client, and waits for that.
	Close()
}

// A Client is the client that Tools serve.
type Client struct {
	// Calls finds its calls.
	Calls Calls

	// Number tells clients of the same server apart. It is 0 for the only client of a server,
	// and for Shared.
	Number int

	// Shared means that this client stands for all callers without an MCP session. Each call
	// must name its session. A session that no call uses for the time Idle should be ended.
	Shared      bool
	IdleTimeout time.Duration
}

// Calls gives tools their calls. It learns of a cancel before the NewSDKServer does, and knows whether
// the client gets an answer. The tools learn both from the Call.
type Calls interface {
	// FindCall returns the call that the NewSDKServer hands to a tool. ok is false when the client has
	// already given it up.
	FindCall(ctx context.Context, req *mcp.CallToolRequest) (c *Call, ok bool)
}
