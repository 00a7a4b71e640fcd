// Package agents has the commands for agents: repl mcp is an MCP server on standard streams or over HTTP,
// and repl install configures clients to start it. Tools and replies are those of package mcpserver.
// The package starts no goroutines.
package agents
