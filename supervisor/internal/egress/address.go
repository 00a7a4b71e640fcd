package egress

import (
	"net"
	"net/netip"
)

// A reservedRange is an address range of machines that often trust every client that can reach
// them.
type reservedRange struct {
	prefix      netip.Prefix
	description string
}

// reservedRanges are blocked unless the user allows the exact address. Ranges that net/netip has
// predicates for are not listed.
var reservedRanges = []reservedRange{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this machine"},
	{netip.MustParsePrefix("100.64.0.0/10"), "of a provider's internal network"},
	{netip.MustParsePrefix("168.63.129.16/32"), "of a cloud metadata service"},
	{netip.MustParsePrefix("192.0.0.0/24"), "of a special-purpose network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "that stands for a name"},
	{netip.MustParsePrefix("240.0.0.0/4"), "of a special-purpose network"},
}

var (
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	teredo     = netip.MustParsePrefix("2001::/32")
	sixTo4     = netip.MustParsePrefix("2002::/16")
)

// addressKind describes what is special about an address, or returns "" for an ordinary public one.
func addressKind(a netip.Addr) string {
	a = a.Unmap()
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return "of this machine"
	case a.IsLinkLocalUnicast(): // 169.254.169.254 too
		return "of the local link, which includes cloud metadata services"
	case a.IsPrivate():
		return "of a private network"
	case a.IsMulticast():
		return "of a multicast group"
	case nat64.Contains(a):
		b := a.As16()
		return addressKind(netip.AddrFrom4([4]byte(b[12:])))
	case a.Is6() && (!globalIPv6.Contains(a) || teredo.Contains(a) || sixTo4.Contains(a)):
		return "of a special-purpose network"
	}
	for _, s := range reservedRanges {
		if s.prefix.Contains(a) {
			return s.description
		}
	}
	return ""
}

// isOwnAddress reports whether an address belongs to this machine and so reaches listeners on all
// interfaces. It reports true if the addresses cannot be listed.
func isOwnAddress(a netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, o := range own {
		if prefix, err := netip.ParsePrefix(o.String()); err == nil && prefix.Addr().Unmap().WithZone("") == a.Unmap().WithZone("") {
			return true
		}
	}
	return false
}
