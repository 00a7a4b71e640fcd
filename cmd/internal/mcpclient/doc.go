// Package mcpclient implements the client side of MCP. It turns the tools of MCP servers into
// functions of sessions.
//
//	config     the servers, from a file or a client's configuration
//	transport  MCP messages in lines, from servers that may write other text in between
//	server     one server, started when it is first used, and again after it ends
//	result     the result of a tool, as a value for code
//	set        all servers, as functions of the sessions of one program
//
// A server is a process under a monitor, like a worker, or a remote server with a URL. All sessions
// of a caller share one connection to each server. When a new caller arrives, the connections of
// callers that have gone are closed.
//
// # Bounds
//
//	servers            100
//	start of a server  2 min, 10 s of it for server/discover; then the older handshake is tried
//	failed starts      pauses of 1, 2, 4, … s, up to 30 s, in which every use fails at once
//	tools of a server  1000, in at most 100 pages
//	reading a message  30 s; then the server is ended
//	a tool             256 KiB of description and schemas, 1 MiB for all of a server
//	one message        16 MiB; a longer result is an error of its call
//	junk               lines that are not messages are dropped; errors quote the first
//	last stderr        4 KiB
//	shutdown           1 s, then SIGTERM, 0.5 s, then the whole process tree is killed
//	a search           20 results
//
// # Goroutines
//
// Goroutines of the SDK end with their connection, and so does watchConnection, one for each
// connection. refreshTools starts at most one goroutine for each server, which ends when the tools
// are listed.
package mcpclient
