// Package mcptools adds REPL sessions to an MCP server of your own: the tools repl, repl_output,
// repl_interrupt, repl_reset and repl_sessions, as the command repl mcp has them. The server is one
// of the Go SDK, github.com/modelcontextprotocol/go-sdk.
//
//	done, err := mcptools.Add(server, sup, mcptools.Options{Languages: map[string]func(string) workers.Spec{
//		"python": func(dir string) workers.Spec { return python.Spec(python.Options{Dir: dir}) },
//	}})
//
// Code that a model writes runs in a sandbox unless you choose otherwise: see [DefaultSandbox].
//
// # Callers
//
// Each MCP session is one caller, with REPL sessions and variables of its own. They end with the MCP
// session. Over HTTP, the SDK notices a client that has left without a word only if you set
// SessionTimeout of its handler. It ends an MCP session only when the open calls have returned.
//
// A handler with the option Stateless has no MCP sessions. There, all calls of a user share their
// REPL sessions, and each call must name its session. A session ends after [Options.IdleTimeout]
// without a call. Users are distinguished by auth.TokenInfo.UserID. All requests without one count
// as the same user. A caller can see and use every session of its user.
//
// All callers of one server have the same options. A server for several users can have one
// [mcp.Server] for each of them, and choose it in the function getServer of the HTTP handler. Such
// servers can share a supervisor.
//
// # Order and delivery
//
// The SDK hands each call to a goroutine before any tool sees it. If a client sends several calls
// without waiting for the answers, they may therefore start in another order. A reply counts as
// read when the tool has returned it and the client has not cancelled the call. If the connection
// breaks just then, later replies do not repeat it; repl_output can still show it.
//
// [Ordered] wraps a transport. Then calls start in the order in which they arrived, and a reply
// counts as read only when it is written. It works for transports that are one stream, such as
// [mcp.StdioTransport]. Over HTTP every call is a request of its own, and there is no order.
//
// # Two servers, one supervisor
//
// The supervisor stays yours. Its functions can be called by the code of these sessions, and its
// limits hold for all. If you close it, calls report an error. The names of its sessions begin with
// mcp-.
package mcptools
