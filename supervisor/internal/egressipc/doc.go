// Package outlet is the socket between a stage and its supervisor over which the connections
// of a sandbox leave it.
//
// The stage sees each connect of the session and knows only addresses. The supervisor knows
// which name an address stands for, decides, and connects outside.
//
//	stage                                supervisor
//	names {socket}               ──▶    answers questions about names at that socket
//	ask {1, 198.18.0.2:443}      ──▶    decides, and begins to dial
//	                             ◀──    answer {1, errno}
//	connected {1, socket}        ──▶    copies bytes between that socket and outside
//	gone {2}                     ──▶    the caller of 2 was interrupted or ended
//	proxied {socket}             ──▶    is the proxy at the other end of that socket
//
// A message is one packet of a Unix socket, as JSON. At most one descriptor goes with it.
package egressipc

import (
	"errors"
	"net/netip"
)

// A Message goes from the stage to the supervisor; an answer goes back.
type Message struct {
	Do    MessageKind
	ID    uint64         `json:",omitempty"` // of the connect, from 1
	To    netip.AddrPort `json:",omitzero"`  // of ask: where the session connects to
	Wait  bool           `json:",omitempty"` // of ask: answer after the dial, because the caller waits for it
	Errno int            `json:",omitempty"` // of answer; 0 is yes
}

// A MessageKind is what a message is for.
type MessageKind string

const (
	NameSocket       MessageKind = "names"     // the first message; its descriptor is a bound UDP socket
	ConnectRequest   MessageKind = "ask"       // may the session connect To?
	ConnectAnswer    MessageKind = "answer"    // to ask
	ConnectionSocket MessageKind = "connected" // its descriptor is the other end of the session's connection
	ConnectCanceled  MessageKind = "gone"      // nobody wants the connection any more
	ProxySocket      MessageKind = "proxied"   // its descriptor is the other end of a connection to Proxy
)

// ProxyAddr is where a session without namespaces finds its proxy. Nobody listens there: the stage
// connects whoever connects there to the supervisor.
var ProxyAddr = netip.MustParseAddrPort("198.18.0.1:1080")

// maxMessageBytes bounds one message in bytes. None of ours has more than 200.
const maxMessageBytes = 1024

var errMalformed = errors.New("outlet: a message that cannot be read")
