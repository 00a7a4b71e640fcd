// Package egressclient is the monitor's end of the network of a sandbox. It asks the supervisor
// about each connection out of the session, and connects the session's socket to the supervisor.
// Package egress in the supervisor decides which hosts are allowed, and knows their names.
//
// # Goroutines
//
//	name     started by       ends when
//	answers  OpenSupervisor   the supervisor is gone
//	sockets  a connect        the process ends
//
// # Connections without namespaces
//
// A session without namespaces shares the machine's network, so no address can stand for a name.
// Its programs name their host to a proxy instead. The monitor intercepts each connect, as package
// broker does for all sessions. For the proxy's address it connects the socket to a listener that
// exists only for this connection, and passes the other end to the supervisor. So no port is open,
// and no token is needed.
//
// A Landlock rule for the port of a proxy was rejected, because it allows that port on every
// machine. A proxy on the loopback interface was rejected. Every user of the machine can connect to
// it, and its token would be in each program's environment and logs. A forwarder inside the session
// was rejected, because it listens on the loopback interface as well. A new socket in place of the
// program's was rejected, because it would lose the options of the old one.
package egressclient
