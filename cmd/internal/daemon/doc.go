// Package daemon serves the sessions of one supervisor to many clients, over a Unix socket or a
// named pipe. It speaks JSON-RPC in lines, as docs/daemon-protocol.md describes. It maps methods to
// the supervisor, and subscriptions to timelines. The supervisor and the timelines decide what a
// client sees, and in which order.
//
// # Answers and streams
//
// Each request has exactly one answer; a cancelled one has the code -32800. Events are sent in
// numbered streams: a snapshot up to N, then each event from N+1. A stream waits for a slow client.
// Answers do not wait, so a client that stops reading is disconnected.
//
// Sending nothing for a cancelled call, as newer versions of MCP do, was rejected, because clients
// that wait for the answer would wait forever. MCP itself was rejected for the socket: its versions
// disagree on cancelled calls, and it has no attached clients. gRPC was rejected as a large
// dependency. A user can type requests of this protocol with netcat.
//
// # Use of the daemon
//
// A user may think for an hour while an agent is open, and the variables must still be there. So
// the daemon is in use while a connected client has a named reader or a subscription. It is also in
// use while a session is being prepared, is starting or running, or waits for input, and while a
// connected client gives functions to one. Connections,
// probes and lists do not count as use. A reader's name belongs to one connection at a time. A
// second connection with the same name gets it with a number.
//
// Counting every open session as use was rejected: a daemon that was started automatically would
// never exit. A lease that clients renew was rejected, because it needs a timer in each client for
// a fact that the connection shows.
//
// # Address of the daemon
//
// Other programs may remove the socket: logind deletes the runtime directory at the last logout.
// The daemon would then be unreachable with all its sessions. So it compares the socket and the
// lock with the files that it created, by device and inode, and creates missing ones again. Linux
// notifies it of removed files. On other systems it checks every 2 s, which takes microseconds. If
// another daemon has taken the address, this one exits when it has no connections and no turn runs.
//
// A signal that restores the socket, as in tmux, was rejected: users would have to know about the
// loss and the process.
//
// # Ticks and windows
//
// A front end shows one screen of a session that may have 100,000 events. So it gets ticks, which
// only notify it of changes, at most ten a second for each session. It reads windows of events by
// cursor. A search examines 8 MiB or takes 0.2 s for each call, and continues from a cursor.
//
// A stream of all events was rejected: it would send everything, even while a browser tab sleeps. A
// window that the client moves in the daemon was rejected: the daemon would keep a state for each
// viewer and lose it at a restart. An index for searches was rejected, because it would cost memory
// and disk space in each session.
//
// # Warm sessions
//
// Python starts in 40 ms, and in half a second with numpy and pyplot. Evaluations open hundreds of
// sessions. So the daemon keeps idle sessions ready, which are called warm. When a client creates a
// session, the daemon renames a warm one with an equal Spec: the same executable, arguments,
// environment, directory, sandbox and limits. A Spec with preparations, such as packages, never
// gets a warm session.
//
// Forking workers was rejected: they would share random seeds, threads and GPU state, and the
// monitor would no longer be their parent. Changing the directory and environment of a running
// worker was rejected, because PYTHONPATH, PYTHONHASHSEED and the locale are read only once.
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
// Daemon.mu may be held while openSession.mu or a lock of package supervisor is taken.
// openSession.functionsMu may be held while Daemon.mu or a lock of package supervisor is taken.
package daemon
