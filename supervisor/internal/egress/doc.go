// Package egress serves the outgoing network connections of sandboxes, and decides by host name
// which ones are allowed.
//
// A session with sandbox.NetworkList has its own network namespace without a connection to the
// outside. Its DNS questions and connections come here, to the supervisor, which has the user's
// network:
//
//	DNS question  each name gets an address of 198.18.0.0/15, which stands for it in this
//	              session only; no question leaves the machine
//	connect       the monitor reports the address; the policy decides by its name; the dial
//	              goes to the name, and the address that it resolves to is checked as well
//	bytes         are copied between the connection inside and the one outside
//
// In a session that shares the user's network, such addresses do not work. Its monitor connects it
// to a proxy instead, which speaks HTTP and SOCKS5 (proxy.go).
//
// A [HostPolicy] belongs to a session and outlives its workers. It holds the allowed hosts, the address
// of each name, and the destinations used so far. [HostPolicy.Serve] serves one worker.
//
// [ExpandHosts] finds the hosts of the user's package registries. A policy allows them all by one
// word.
//
// All input may be hostile: questions and connections come from the session, and responses come
// from outside.
//
// The package runs in the supervisor. It does not know how a worker is sandboxed. Package egressipc
// defines what a monitor sends.
//
// # Goroutines
//
//	name       started by   ends when                           owns
//	serve      the caller   the monitor is gone                 the connections
//	DNS        serve        its socket is closed, by serve      that socket
//	connection serve        it is over, or serve ends it        both its sockets
//	client     serve        its socket is closed                that socket
//	HTTP       a client     the monitor is gone                 the requests of clients
//
// # Bounds
//
//	what                               bound     when it is exceeded
//	names of a session                 16 384    further names do not resolve; a notice says so
//	concurrent connections             256       ENOBUFS, or a reset by the proxy; a notice says so
//	time to send the proxy a request   10 s      the connection is closed
//	headers of a proxy request         16 KiB    "Request Header Fields Too Large"
//	idle time between proxy requests   1 min     the connection is closed
//	time to dial, with lookup          15 s      ETIMEDOUT, or a reset
//	half-open connection               1 h       both halves end
//	bytes in memory per connection     64 KiB    the sender waits
//	listed destinations                1 000     the rest is listed as "others"
package egress
