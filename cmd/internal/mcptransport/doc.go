// Package mcpwire carries the messages of the Model Context Protocol between clients and
// tools: for one client on a pair of streams (Serve), or for any number over HTTP
// (ServeHTTP). It knows calls, and nothing of what they are about.
//
//	err := mcpwire.Serve(ctx, os.Stdin, os.Stdout, logger, func(c mcpwire.Client) mcpwire.Tools {
//		return newTools(c)
//	})
//
// The NewSDKServer keeps the protocol, in every version from 2024-11-05 on. The wire below it
// keeps the promises that the NewSDKServer does not: a cancelled call is never answered, ids and
// progress tokens come back as they were sent, a line that is not JSON costs an error
// and not the connection, and a tool learns whether the client is given its answer.
//
// Over HTTP a front does the same before the NewSDKServer's handlers. A request goes through
// gate, front, exchange and the NewSDKServer to a tool:
//
//	gate      who may: token, Host, Origin, how many connections
//	front     which era, whose: one server for each MCP session, one for all calls without
//	exchange  the response: what is written for a cancelled call goes nowhere
//	replay    messages for clients that come back; whether an answer is delivered
//
// The front also takes what clients say in other words than the NewSDKServer wants, and an alias stands
// for an id that the NewSDKServer would change.
//
// # Goroutines
//
//	name     started by  ends when                          owns
//	lines    Serve       the input ends or fails            the input
//	calls    the NewSDKServer     the call is answered or cancelled  nothing
//	asides   lines       its messages are written           errors that answer no call
//	last     Serve       calls and asides have ended        nothing
//	web      ServeHTTP   the listener is closed             connections, with one goroutine each
//	leaving  a request   its calls are answered, 0.5 s      a client that has ended
//
// When the input has ended, Serve lets the calls before it be answered, for lastCallsTimeout at most. At
// the end it waits half a second for calls and asides: no longer, because a client that does
// not read blocks them in a write. lines cannot be ended from here while it reads, nor
// can such a write: they end with the streams, or with the process. ServeHTTP waits for
// web, and for half a second for leaving and connections, which it then closes.
package mcptransport
