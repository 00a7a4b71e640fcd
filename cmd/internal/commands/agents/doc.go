// Package agents has the commands for agents: repl mcp runs an MCP server on standard streams or
// over HTTP, and repl install configures clients to start it. Package mcpserver has the tools and
// the replies. The package starts no goroutines.
package agents
