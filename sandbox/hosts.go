package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// A HostPattern matches network destinations: a host name, all names below one, or an address,
// at one port or at all ports.
type HostPattern struct {
	Name       string     // in lower case; "" for an address
	Subdomains bool       // the names below Name, but not Name itself
	Addr       netip.Addr // set for an address
	Port       uint16     // 0 means all ports
}

// maxHostNameBytes is the maximum length of a DNS name, as text.
const maxHostNameBytes = 253

// ParseHostPattern parses a pattern: "example.org", "*.example.org", "example.org:5432",
// "192.0.2.7", "[2001:db8::7]:443".
func ParseHostPattern(pattern string) (HostPattern, error) {
	wrong := func(why string) (HostPattern, error) {
		return HostPattern{}, fmt.Errorf("%q is not a host: %s; write example.org, *.example.org, example.org:5432 or an address", pattern, why)
	}
	var h HostPattern
	name := pattern
	if addr, err := netip.ParseAddr(strings.Trim(pattern, "[]")); err == nil {
		if addr.Zone() != "" {
			return wrong("an address must not have a zone")
		}
		h.Addr = addr.Unmap()
		return h, nil
	}
	if before, after, err := net.SplitHostPort(pattern); err == nil {
		port, err := strconv.ParseUint(after, 10, 16)
		if err != nil || port == 0 {
			return wrong("the port must be a number from 1 to 65535")
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

// hostNameProblem returns why a text is not a valid host name, or "".
func hostNameProblem(name string) string {
	if name == "" {
		return "the name is empty"
	}
	if len(name) > maxHostNameBytes {
		return "a name must not exceed 253 characters"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "each label of a name must have 1 to 63 characters"
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return fmt.Sprintf("a name must not contain %q (write an international name as xn--…)", c)
			}
		}
	}
	if strings.Trim(name, "0123456789.") == "" {
		return "it looks like an address, but is not valid"
	}
	return ""
}

// Matches reports whether the pattern matches a name, in lower case, at a port.
func (h HostPattern) Matches(name string, port uint16) bool {
	if h.Name == "" || h.Port != 0 && h.Port != port {
		return false
	}
	if h.Subdomains {
		return strings.HasSuffix(name, "."+h.Name)
	}
	return name == h.Name
}

// MatchesAddr reports whether the pattern matches this address at this port.
func (h HostPattern) MatchesAddr(a netip.AddrPort) bool {
	return h.Addr.IsValid() && h.Addr == a.Addr().Unmap() && (h.Port == 0 || h.Port == a.Port())
}

// MatchesHostPort reports whether the pattern matches "name:port" or "address:port".
func (h HostPattern) MatchesHostPort(place string) bool {
	if a, err := netip.ParseAddrPort(place); err == nil {
		return h.MatchesAddr(a)
	}
	name, port, err := net.SplitHostPort(place)
	n, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil && h.Matches(name, uint16(n))
}

// String returns the pattern in the form that ParseHostPattern reads.
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
