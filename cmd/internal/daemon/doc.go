// Package daemon keeps sessions alive for many clients, over a unix socket:
// JSON-RPC in lines, as docs/daemon.md has it. It maps methods to the supervisor
// and streams to its timelines; what a client may see, and in which order, is
// decided there.
//
// # Goroutines
//
//	name          started by       ends when                             owns
//	owner         Serve; is it     it was told to stop, or ctx ended     the daemon's state
//	acceptor      Serve            the listener is closed                accepting
//	file watch    Serve, on Linux  Serve ends                             learning from the kernel
//	                                                                     that the socket is gone
//	client        the acceptor     its connection ends                   one rpc connection
//	subscription  stream/subscribe its connection or its session ends,   one client's way through
//	              and resume       or it is paused or unsubscribed       one timeline
//	ticks         a subscription   the session is closed, or the         telling one client of
//	              to all ticks     subscription ends                     one session
//	opening       session/create   the session is open, or failed        that
//	indicator     session/create   the preparation or the connection     telling one client how
//	                               ends                                  far it is
//	drain         the owner        nothing runs, or a minute is over     waiting for that
//	beat          a long call      the call is answered                  its progress
//
// Serve waits for all of them.
package daemon
