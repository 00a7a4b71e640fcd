package workers

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// A HostPattern is a pattern of places in the network: a name, all names below one, or an address,
// at one port or at all.
type HostPattern struct {
	Name       string     // in lower case; "" for an address
	Subdomains bool       // the names below Name, and not Name itself
	Addr       netip.Addr // of an address
	Port       uint16     // 0 means all
}

// maxHostNameBytes is the longest name that DNS can carry, as text.
const maxHostNameBytes = 253

// ParseHostPattern reads a pattern: "example.org", "*.example.org", "example.org:5432",
// "192.0.2.7", "[2001:db8::7]:443".
func ParseHostPattern(pattern string) (HostPattern, error) {
	wrong := func(why string) (HostPattern, error) {
		return HostPattern{}, fmt.Errorf("%q is not a host: %s; write example.org, *.example.org, example.org:5432 or an address", pattern, why)
	}
	var h HostPattern
	name := pattern
	if addr, err := netip.ParseAddr(strings.Trim(pattern, "[]")); err == nil {
		if addr.Zone() != "" {
			return wrong("an address has no zone here")
		}
		h.Addr = addr.Unmap()
		return h, nil
	}
	if before, after, err := net.SplitHostPort(pattern); err == nil {
		port, err := strconv.ParseUint(after, 10, 16)
		if err != nil || port == 0 {
			return wrong("a port is a number from 1 to 65535")
		}
		name, h.Port = before, uint16(port)
	}
	if addr, err := netip.ParseAddr(name); err == nil && addr.Zone() == "" {
		h.Addr = addr.Unmap()
		return h, nil
	}
	name, h.Subdomains = strings.CutPrefix(name, "*.")
	h.Name = strings.ToLower(strings.TrimSuffix(name, "."))
	if why := hostNameProblem(h.Name); why != "" {
		return wrong(why)
	}
	return h, nil
}

// hostNameProblem says why a text is no name of a host, or "".
func hostNameProblem(name string) string {
	if name == "" {
		return "it has no name"
	}
	if len(name) > maxHostNameBytes {
		return "a name has at most 253 characters"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "the parts of a name have 1 to 63 characters"
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return fmt.Sprintf("a name has no %q (an international name is written as xn--…)", c)
			}
		}
	}
	if strings.Trim(name, "0123456789.") == "" {
		return "it looks like an address, and is none"
	}
	return ""
}

// Matches reports whether a name at a port belongs to the pattern. The name is in lower case.
func (h HostPattern) Matches(name string, port uint16) bool {
	if h.Name == "" || h.Port != 0 && h.Port != port {
		return false
	}
	if h.Subdomains {
		return strings.HasSuffix(name, "."+h.Name)
	}
	return name == h.Name
}

// MatchesAddr reports whether the pattern is this address at this port.
func (h HostPattern) MatchesAddr(a netip.AddrPort) bool {
	return h.Addr.IsValid() && h.Addr == a.Addr().Unmap() && (h.Port == 0 || h.Port == a.Port())
}

// MatchesHostPort reports whether "name:port" or "address:port" belongs to the pattern.
func (h HostPattern) MatchesHostPort(place string) bool {
	if a, err := netip.ParseAddrPort(place); err == nil {
		return h.MatchesAddr(a)
	}
	name, port, err := net.SplitHostPort(place)
	n, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil && h.Matches(name, uint16(n))
}

// String is the pattern, as ParseHostPattern reads it.
func (h HostPattern) String() string {
	name := h.Name
	if h.Subdomains {
		name = "*." + name
	}
	if h.Addr.IsValid() {
		name = h.Addr.String()
	}
	if h.Port == 0 {
		return name
	}
	return net.JoinHostPort(name, strconv.Itoa(int(h.Port)))
}
