// Package egressipc defines the protocol of the socket over which a monitor passes the outgoing
// connections of a sandbox to its supervisor.
//
// The monitor sees each connect of the session, but knows only addresses. The supervisor knows
// which name an address stands for. It decides, and connects outside.
//
//	monitor                              supervisor
//	names {socket}               ──▶    answers DNS questions on that socket
//	ask {1, 198.18.0.2:443}      ──▶    decides, and starts to dial
//	                             ◀──    answer {1, errno}
//	connected {1, socket}        ──▶    copies bytes between that socket and outside
//	gone {2}                     ──▶    drops connect 2: its caller was interrupted or ended
//	proxied {socket}             ──▶    serves the proxy on that socket
//
// A message is one JSON packet on a Unix socket, with at most one descriptor.
//
// The package decides nothing, dials nothing, and starts no goroutines. It has the socket on Linux
// only, because no other system has sandboxes.
package egressipc

import (
	"errors"
	"net/netip"
)

// A Packet is one message from the monitor to the supervisor, or an answer to it.
type Packet struct {
	Do    PacketKind
	ID    uint64         `json:",omitempty"` // of the connect, from 1
	To    netip.AddrPort `json:",omitzero"`  // of ask: where the session connects to
	Wait  bool           `json:",omitempty"` // of ask: answer after the dial, because the caller waits for it
	Errno int            `json:",omitempty"` // of answer; 0 if the connect is allowed
}

// A PacketKind says what a packet asks for and which fields and descriptor it has.
type PacketKind string

// The kinds of packets.
const (
	NameSocket       PacketKind = "names"     // the first packet; its descriptor is a bound UDP socket
	ConnectRequest   PacketKind = "ask"       // may the session connect To?
	ConnectAnswer    PacketKind = "answer"    // to ask
	ConnectionSocket PacketKind = "connected" // its descriptor is the other end of the session's connection
	ConnectCanceled  PacketKind = "gone"      // the session no longer wants the connection
	ProxySocket      PacketKind = "proxied"   // its descriptor is the other end of a connection to ProxyAddr
)

// ProxyAddr is the address at which a session without namespaces finds its proxy. No process
// listens there: the monitor intercepts the connect and passes the connection to the supervisor.
var ProxyAddr = netip.MustParseAddrPort("198.18.0.1:1080")

// maxMessageBytes bounds one message in bytes. Our own messages have at most 200.
const maxMessageBytes = 1024

var errMalformed = errors.New("egress: malformed message")
