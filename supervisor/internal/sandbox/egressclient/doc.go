// Package egressclient is the monitor's end of the network of a sandbox: it asks the supervisor about
// each connection that leaves the session, and connects the session's socket to the supervisor. It does
// not decide which hosts are allowed, and knows no names: package egress in the supervisor does.
//
// # Goroutines
//
//	name     started by       ends when
//	answers  OpenSupervisor   the supervisor is gone
//	sockets  a connect        the process ends
package egressclient
