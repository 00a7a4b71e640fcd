package egress

import (
	"net"
	"net/netip"
)

// A reservedRange range of addresses leads to machines that trust whoever can reach them.
type reservedRange struct {
	prefix      netip.Prefix
	description string
}

// reservedRanges are refused, unless a person names the very address. The kinds that net/netip knows
// are not in it.
var reservedRanges = []reservedRange{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this machine"},
	{netip.MustParsePrefix("100.64.0.0/10"), "of a provider's own network"},
	{netip.MustParsePrefix("168.63.129.16/32"), "of a cloud's metadata"},
	{netip.MustParsePrefix("192.0.0.0/24"), "of a special network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "that stands for a name"},
	{netip.MustParsePrefix("240.0.0.0/4"), "of a special network"},
}

var (
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	teredo     = netip.MustParsePrefix("2001::/32")
	sixTo4     = netip.MustParsePrefix("2002::/16")
)

// addressKind says what is special about an address, "" of one that is anybody's.
func addressKind(a netip.Addr) string {
	a = a.Unmap()
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return "of this machine"
	case a.IsLinkLocalUnicast(): // 169.254.169.254 too
		return "of the local link, where clouds keep their metadata"
	case a.IsPrivate():
		return "of a private network"
	case a.IsMulticast():
		return "of many machines"
	case nat64.Contains(a):
		b := a.As16()
		return addressKind(netip.AddrFrom4([4]byte(b[12:])))
	case a.Is6() && (!globalIPv6.Contains(a) || teredo.Contains(a) || sixTo4.Contains(a)):
		return "of a special network"
	}
	for _, s := range reservedRanges {
		if s.prefix.Contains(a) {
			return s.description
		}
	}
	return ""
}

// isOwnAddress reports whether an address belongs to this machine, where it reaches what listens for
// everybody.
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
