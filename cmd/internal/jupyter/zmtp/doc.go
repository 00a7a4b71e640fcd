// Package zsock has the sockets of ZeroMQ that Jupyter's messages travel on: ROUTER and XPUB to
// be connected to, DEALER and SUB to connect with.
//
// The wire (ZMTP 3.0, https://rfc.zeromq.org/spec/23) is that of github.com/go-zeromq/zmq4: its
// handshake, RecvMsg and SendMsg. Its sockets are not used, since a stranger's few bytes end a
// process that has one. In front of each connection stands a guard, which reads the framing
// before the library does and bounds it.
//
// Bounds, for a listener: 64 connections, of which those without a handshake make room for new
// ones; 10 s for a handshake; 64 MiB and 64 frames a message; 256 MiB of messages that are being
// received on all connections together. A connection that exceeds one is closed. Messages that
// were posted to a peer that does not read are kept up to 1024, or 64 MiB; then its connection is
// closed.
//
// Goroutines: a Listener has one that accepts, and one for each connection, which runs the
// handshake and the function that serves it. A Conn has one more from the first Post on. Close
// ends them and waits for them.
package zmtp
