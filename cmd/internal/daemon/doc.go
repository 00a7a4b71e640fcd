// Package daemon serves the sessions of one supervisor to many clients, over a Unix socket or
// a named pipe. It speaks JSON-RPC in lines, as docs/daemon-protocol.md describes. It maps methods to the
// supervisor and subscriptions to timelines. The supervisor and the timelines decide what a client
// sees, and in which order.
//
// # Answers and streams
//
// Each request has exactly one answer; a cancelled one has the code -32800. Newer versions of MCP
// send nothing for a cancelled call, but clients that wait for the answer would wait forever.
// Events come in numbered streams: a snapshot up to N, then each event from N+1. A stream waits for
// a slow client. Answers do not wait, so a client that stops reading is disconnected. MCP itself
// was rejected for the socket: its versions disagree on cancelled calls, and it has no attached
// clients. gRPC was rejected as a large dependency; a user can type requests of this protocol with
// netcat.
//
// # Use of the daemon
//
// A user may think for an hour while an agent is open, and the variables must still be there. So
// the daemon is in use while a connected client has a reader, while a client is subscribed, and
// while a session is starting, running or waiting for input. Connections, probes and lists are not
// use. If every open session were use, a daemon that was started automatically would never exit. A
// lease that clients renew was rejected: it needs a timer in each client for what the connection
// shows. A reader's name belongs to one connection at a time; the next one gets the name with a
// number.
//
// # Address of the daemon
//
// Other programs remove the socket: logind deletes the runtime directory at the last logout. The
// daemon would then be unreachable with all its sessions. So it compares the socket and the lock
// with the files that it created, by device and inode, and creates missing ones again. Linux
// reports removed files. Elsewhere the daemon checks every 2 s, which takes microseconds. A signal
// that restores the socket, as in tmux, was rejected: users would have to know about the loss and
// the process. If another daemon has the address, this one exits when it has no connections and no
// turn runs.
//
// # Ticks and windows
//
// A front end shows one screen of a session that may have 100,000 events. A stream would send it
// everything, even while its browser tab sleeps. So it gets ticks, at most ten a second for each
// session, and reads windows of events by cursor. A window that the client moves in the daemon was
// rejected: the daemon would keep a state for each viewer and lose it at a restart. A search
// examines 8 MiB or takes 0.2 s for each call, and continues from a cursor. An index would cost
// memory and disk space in each session.
//
// # Warm sessions
//
// Python starts in 40 ms, and in half a second with numpy and pyplot. Evaluations open hundreds of
// sessions. So the daemon keeps idle sessions ready. It renames one when a client creates a session
// whose Spec is equal in executable, arguments, environment, directory, sandbox and limits. Forking
// workers was rejected: they would share random seeds, threads and GPU state, and the monitor would
// no longer be their parent. Changing the directory and environment of a running worker was
// rejected as well, because PYTHONPATH, PYTHONHASHSEED and the locale are read only once.
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
