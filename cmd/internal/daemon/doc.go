// Package daemon serves the sessions of one supervisor to many clients, over a Unix socket or
// a named pipe. It speaks JSON-RPC in lines, as docs/daemon-protocol.md describes. It maps methods to the
// supervisor and subscriptions to timelines. The supervisor and the timelines decide what a client
// sees, and in which order.
//
// # Goroutines
//
//	name          started by        ends when                            owns
//	owner         Serve; is it      a stop command, or ctx ends          the state of the daemon
//	acceptor      Serve             the listener is closed               accepting
//	warm pool     Serve, for each   ctx ends                             the warm sessions of a language
//	file watch    Serve, on Linux   Serve ends                           events about the socket's files
//	client        the acceptor      its connection ends                  one RPC connection
//	subscription  stream/subscribe  its connection or its session ends,  sending one timeline
//	              and resume        or it is paused or unsubscribed      to one client
//	ticks         a subscription    the session is closed, or the        sending the ticks of one
//	              to all ticks      subscription ends                    session to one client
//	opening       session/create    the session is open, or failed       opening the session
//	progress      session/create    the preparation or the connection    sending the progress of
//	                                ends                                 the preparation
//	drain         the owner         no turn runs, or after a minute      waiting for the turns
//	duration      a long call       the call is answered                 the progress of the call
//
// [Daemon.Serve] waits for all of them.
//
// # Locks
//
// Daemon.mu may be held when openSession.mu or a lock of package supervisor is taken.
package daemon
