// Package zmtp implements the ZeroMQ sockets that carry Jupyter's messages: ROUTER and XPUB, which
// listen, and DEALER and SUB, which connect.
//
// The library github.com/go-zeromq/zmq4 implements the wire protocol (ZMTP 3.0,
// https://rfc.zeromq.org/spec/23). This package uses its handshake, RecvMsg and SendMsg, but not
// its sockets. A few malformed bytes from any peer would crash a process with such a socket. A
// guard in front of each connection parses the framing before the library does, and bounds it.
//
// A listener has these bounds: 64 connections; 10 s for a handshake; 64 MiB and 64 frames for a
// message; 256 MiB of incomplete messages on all connections. If there is no room, a new connection
// replaces the oldest without a finished handshake. A connection that exceeds a bound is closed. Up
// to 1024 messages, or 64 MiB, are queued for a peer that does not read. Then its connection is
// closed.
//
// Goroutines: a Listener has one that accepts, and one for each connection, which runs the
// handshake and the function that serves it. A Conn has one more from the first Enqueue on. Close
// ends them and waits for them.
//
// # Parts of zmq4
//
// Any local user can stop the library's own sockets. In version 0.17.0 nine bytes after the
// greeting end the process, because an announced length is allocated. One unfinished handshake
// blocks other peers, and one sleeping subscriber stops the rest.
//
// Bindings to libzmq were rejected, because the command would no longer be one static file. Patches
// upstream were rejected, because users would wait for releases. A separate implementation of ZMTP
// was rejected: it would be 500 lines that others have tested already.
package zmtp
