package mcptransport

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StatelessVersion is the first version of the protocol without MCP sessions. Each call is
// independent, and a server sends no requests.
const StatelessVersion = "2026-07-28"

// Tools are the MCP tools of one client, with their state. All methods may be called
// concurrently.
type Tools interface {
	// NewSDKServer creates the SDK server that offers the tools. sessionID returns the id of its
	// MCP session; it is nil without MCP sessions.
	NewSDKServer(sessionID func() string) *mcp.Server

	// OpenAhead starts opening the session that a first call is likely to need.
	OpenAhead()

	// IsUsed reports whether a call has used the tools yet.
	IsUsed() bool

	// Close ends everything that belongs to the client, and waits until it has ended.
	Close()
}

// A ServedClient describes the client that Tools serve.
type ServedClient struct {
	// Calls finds the client's calls.
	Calls CallFinder

	// Number distinguishes the clients of a server. It is 0 for the only client of a server, and
	// for Shared.
	Number int

	// Shared means that this client stands for all callers without an MCP session. Each call must
	// name its session. A session without calls for IdleTimeout should be ended.
	Shared      bool
	IdleTimeout time.Duration
}

// A CallFinder finds the ToolCall of each request that the SDK hands to a tool. It learns of a
// cancel before the SDK does, and knows whether the client gets an answer. The tools learn both
// from the ToolCall.
type CallFinder interface {
	// FindCall returns the call that the SDK hands to a tool. ok is false if the client has
	// already given it up.
	FindCall(ctx context.Context, req *mcp.CallToolRequest) (c *ToolCall, ok bool)
}
