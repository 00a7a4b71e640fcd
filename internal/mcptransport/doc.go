// Package mcptransport carries messages of the Model Context Protocol between clients and tools.
// Serve serves one client on a pair of streams, and ServeHTTP any number over HTTP. The package
// passes calls on without knowing their purpose: it knows nothing of sessions, languages or
// workers.
//
//	err := mcptransport.Serve(ctx, os.Stdin, os.Stdout, logger, func(c mcptransport.ServedClient) mcptransport.Tools {
//		return newTools(c)
//	})
//
// The SDK implements the protocol, in every version from 2024-11-05 on. The transport below it adds
// four guarantees:
//
//   - A cancelled call is never answered.
//   - Ids and progress tokens come back exactly as they were sent.
//   - A line that is not JSON costs an error, not the connection.
//   - A tool learns whether the client receives its answer.
//
// The tools can also be on the MCP server of another program, with a transport of the SDK. HostCalls
// then finds the calls, and gives less: see there. [Ordered] adds order, cancels and delivery to such
// a transport, if it is one stream.
//
// Over HTTP, a front gives the same guarantees before the SDK's handlers run. A request passes
// through guard, front, exchange and the SDK to a tool:
//
//	guard     authorization: token, Host, Origin, number of connections
//	front     protocol era and client: one server for each MCP session, one for all stateless calls
//	exchange  the response; drops what is written for a cancelled call
//	replay    messages for clients that reconnect; whether an answer is delivered
//
// The front also normalizes requests that the SDK would refuse for their spelling. It replaces each
// id that the SDK would change by an alias.
//
// # Two HTTP handlers
//
// A handler of the SDK serves either clients with MCP sessions, or protocol 2026-07-28, whose
// requests are independent. So the front has one handler of each kind, and chooses by the version
// of the request. The SDK answers cancelled calls, and does not let its caller wrap a connection.
// So the front numbers each call in a header that no client can set. The number leads the tool to
// its ToolCall, and the front drops the answer of a cancelled call. A bearer token is required even
// on the loopback interface, because every user of the machine can connect there.
//
// An HTTP layer of our own was rejected: batches, streams and resumption would have to follow five
// protocol versions.
//
// # Separation from the tools
//
// This package faces the network, so a reader must be able to judge it alone. It imports neither
// package mcpserver nor a session. Its only view of the tools is [Tools], an interface of four
// methods, and a tool sees a call as a [ToolCall].
//
// One package with folders by file name was rejected, because nothing would prevent further
// references between the parts. Three packages, with the callers' sessions apart from the tools,
// were rejected, because those two share nearly every field.
//
// # Calls at the end of the input
//
// Scripts and gateways write all messages into a pipe and close it. At that end the SDK ends every
// call, so they would get only the answer to initialize. Closing the input is also how a client
// asks a server to exit, and clients send SIGTERM after 2 to 5 s. A server cannot distinguish the
// two cases. So Serve continues until 5 s after the last request, until a signal, or until nobody
// reads its output. Waiting without this limit was rejected: a client that leaves long code behind
// would keep its server for minutes.
//
// # Goroutines
//
//	name           started by          ends when                          owns
//	readLines      Serve               the input ends or fails            the input
//	calls          the SDK             the call is answered or cancelled  nothing
//	queueWriters   the SDK's reader    its messages are written           errors that answer no call
//	last           Serve               calls and queueWriters have ended  nothing
//	web            ServeHTTP           the listener is closed             connections, one goroutine
//	                                                                      each
//	serveBatch     a request           its message is served              one message of a batch
//	endingClients  a request, a timer  its calls are answered, or 0.5 s   a client that has ended
//
// When the input ends, Serve lets earlier calls finish, for lastCallsTimeout at most. It then waits
// half a second for calls and queueWriters. It cannot wait longer, because a client that does not
// read blocks them in a write. Serve can interrupt neither such a write nor readLines in a read.
// Both end with the streams or with the process. ServeHTTP waits for web. It gives endingClients
// and connections half a second, then closes the connections.
//
// # Locks
//
// A lock of the first column may be held while a lock of the second is taken, never the other way
// round:
//
//	stdioConn.mu     Queue.mu
//	orderedConn.mu   Queue.mu
//	httpFront.mu     Queue.mu, callerstate.SessionSet.mu
//	ToolCall.mu      Queue.mu
//	replayStore.mu   httpFront.mu, ToolCall.mu, Queue.mu, callerstate.SessionSet.mu
//	exchange.mu      ToolCall.mu; for a message of a batch also sharedStream.mu
//	sharedStream.mu  exchange.mu of the whole request
//
// replayStore.mu is held while an answer is recorded as delivered, which takes the other locks one
// after the other. exchange.mu and sharedStream.mu are held during a write, which has a deadline.
package mcptransport
