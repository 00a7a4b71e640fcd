// Package egressclient is the monitor's end of the network of a sandbox: it asks the supervisor about
// each connection that leaves the session, and connects the session's socket to the supervisor. It does
// not decide which hosts are allowed, and knows no names: package egress in the supervisor does.
//
// # Goroutines
//
//	name     started by       ends when
//	answers  OpenSupervisor   the supervisor is gone
//	sockets  a connect        the process ends
//
// # Connections without namespaces
//
// Such a session shares the machine's network, so no address can stand for a name, and programs name
// their host to a proxy. The monitor intercepts each connect, as package broker does for all sessions.
// For the proxy's address it connects the socket to a listener that exists for this connection, and
// passes the other end to the supervisor. So no port is open, and no token is needed. A Landlock rule
// for a port allows that port on every machine. A proxy on the loopback is open to every user of the
// machine, and its token would be in each program's environment and logs. A forwarder in the session
// listens at the loopback as well. A new socket in place of the program's would lose its options.
package egressclient
