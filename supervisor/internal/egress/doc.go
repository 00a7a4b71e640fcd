// Package egress is the way out of a sandbox: the network by the name of the host.
//
// A session with workers.NetworkList has a network namespace without a way out. Its questions
// about names and its connections come here, to the supervisor, which has the user's network:
//
//	a question    each name gets an address of 198.18.0.0/15, which stands for it in this
//	              session only; nothing is asked outside
//	a connect     the stage asks for an address; its name decides; the dial goes to the name,
//	              and what it really reaches is checked once more
//	bytes         are copied between the connection inside and the one outside
//
// One that shares the user's network has no names that lead here. Its stage connects it to a proxy
// instead, which speaks HTTP and SOCKS5 (proxy.go).
//
// A [Policy] belongs to a session and outlives its workers: what may be reached, which address
// stands for which name, and what was reached. [Policy.Serve] serves one worker.
//
// Everything that arrives here may be hostile: questions and connections come from the session,
// and answers from outside.
//
// # Goroutines
//
//	name       started by   ends when                           owns
//	serve      the caller   the stage is gone                   the connections
//	questions  serve        its socket is closed, by serve      that socket
//	connection serve        it is over, or serve ends it        both its sockets
//	visitor    serve        its socket is closed                that socket
//	HTTP       a visitor    the stage is gone                   the requests of visitors
//
// # Bounds
//
//	what                               bound     beyond it
//	names of a session                 16 384    further ones do not resolve; a notice says so
//	connections at a time              256       ENOBUFS, to the proxy a reset; a notice says so
//	time to ask the proxy for a place  10 s      the connection is closed
//	head of a request to the proxy     16 KiB    "Request Header Fields Too Large"
//	silence between such requests      1 min     the connection is closed
//	time to dial, with the lookup      15 s      ETIMEDOUT, or a reset
//	half of a connection alone         1 h       both halves end
//	bytes in memory, a connection      64 KiB    the sender waits
//	hosts that are listed              1 000     the rest is listed as one
package egress
