// Package tools makes the tools of MCP servers functions of sessions: it is the client side of
// MCP.
//
//	config     which servers there are, from a file or a client's configuration
//	transport  MCP messages in lines, from servers that also write other things
//	server     one server: started when it is first used, and again after its end
//	result     what a tool returned, as a value for code
//	set        all servers, as functions of the sessions of one program
//
// A server is a process under a stage, like a worker, or at an address. There is one connection
// to each for all sessions of a caller. Those of a caller that is gone end when the next one comes.
//
// # Bounds
//
//	servers            100
//	start of a server  2 min; server/discover 10 s of it, then it is spoken to in the older way
//	failed starts      a pause of 1, 2, 4, … s, up to 30 s, in which a use fails at once
//	tools of a server  1000, in at most 100 pages
//	to read a message  30 s; then the server is ended
//	a tool             256 KiB of description and schemas, 1 MiB for all of a server
//	one message        16 MiB; a longer result is an error of its call
//	junk               lines that are no messages are dropped; the first of them is kept for errors
//	last words         4 KiB of standard error
//	its end            1 s, then SIGTERM, 0.5 s, then by force with all that it started
//	a search           20 results
//
// # Goroutines
//
// Those of the SDK end with their connection. watch, one of each server's process, ends with it;
// relist, one at a time of each server, ends when the tools are listed.
package mcpclient
