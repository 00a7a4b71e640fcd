package egress

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/sandbox"
)

const (
	// firstAddress is the address of the first name. 198.18.0.0/15 is reserved for tests of network
	// devices, so no host on the Internet uses it. 198.18.0.1 is the session's own address.
	firstAddress = 198<<24 | 18<<16 | 2

	// maxNames bounds the names of a session. An address is never reused for another name, because
	// a program may still hold it.
	maxNames = 16_384
)

// nameTable maps the host names of a session to the addresses that stand for them.
type nameTable struct {
	mu        sync.Mutex
	positions map[string]int
	list      []string
}

// addressFor returns the address that stands for a name, and whether an address was left. The name
// must be in lower case and without the final dot.
func (n *nameTable) addressFor(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, ok := n.positions[name]
	if !ok {
		if len(n.list) >= maxNames {
			return netip.Addr{}, false
		}
		if n.positions == nil {
			n.positions = make(map[string]int)
		}
		i = len(n.list)
		n.list = append(n.list, name)
		n.positions[name] = i
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], firstAddress+uint32(i))
	return netip.AddrFrom4(b), true
}

// nameOf returns the name that an address stands for, or "".
func (n *nameTable) nameOf(a netip.Addr) string {
	if a = a.Unmap(); !a.Is4() {
		return ""
	}
	b := a.As4()
	i := int64(binary.BigEndian.Uint32(b[:])) - firstAddress
	n.mu.Lock()
	defer n.mu.Unlock()
	if i < 0 || i >= int64(len(n.list)) {
		return ""
	}
	return n.list[i]
}

// isName reports whether a text could be the name of a host.
func isName(text string) bool {
	h, err := sandbox.ParseHostPattern(text)
	return err == nil && h.Name == text && !h.Subdomains && h.Port == 0
}

// isLocal reports whether a name means the session itself.
func isLocal(name, own string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || name == own
}
