// Package networks sets up networks for tests by netlink, so that the tests also run where iproute2
// is not installed. Each function acts on the network namespace of the calling thread, in which it
// needs CAP_NET_ADMIN. It starts no goroutines.
package networks

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// vethPeer is VETH_INFO_PEER of linux/veth.h.
const vethPeer = 1

// BringUp activates a device, like "ip link set DEVICE up".
func BringUp(device string) error {
	index, err := deviceIndex(device)
	if err != nil {
		return err
	}
	return sendRequest(unix.RTM_NEWLINK, 0, "up "+device, linkHeader(index, unix.IFF_UP))
}

// AddVethPair creates a pair of connected devices: one in this namespace, and its peer in the
// network namespace that the descriptor peerNamespace refers to.
func AddVethPair(device, peer string, peerNamespace int) error {
	remoteEnd := slices.Concat(linkHeader(0, 0),
		encodeAttribute(unix.IFLA_IFNAME, cString(peer)),
		encodeAttribute(unix.IFLA_NET_NS_FD, nativeUint32(uint32(peerNamespace))))
	return sendRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "veth pair "+device,
		linkHeader(0, 0),
		encodeAttribute(unix.IFLA_IFNAME, cString(device)),
		encodeAttribute(unix.IFLA_LINKINFO, slices.Concat(
			encodeAttribute(unix.IFLA_INFO_KIND, cString("veth")),
			encodeAttribute(unix.IFLA_INFO_DATA, encodeAttribute(vethPeer, remoteEnd)))))
}

// AddAddress gives a device an address, and a route to the network of that address.
func AddAddress(device string, at netip.Prefix) error {
	index, err := deviceIndex(device)
	if err != nil {
		return err
	}
	header := make([]byte, unix.SizeofIfAddrmsg)
	header[0], header[1] = addressFamily(at), byte(at.Bits())
	binary.NativeEndian.PutUint32(header[4:], index)
	return sendRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "address "+at.String(),
		header,
		encodeAttribute(unix.IFA_LOCAL, at.Addr().AsSlice()),
		encodeAttribute(unix.IFA_ADDRESS, at.Addr().AsSlice()))
}

// AddRoute routes these addresses over a device.
func AddRoute(to netip.Prefix, device string) error {
	index, err := deviceIndex(device)
	if err != nil {
		return err
	}
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[1] = addressFamily(to), byte(to.Bits())
	header[4], header[5], header[6], header[7] = unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST
	return sendRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "route "+to.String(),
		header,
		encodeAttribute(unix.RTA_DST, to.Addr().AsSlice()),
		encodeAttribute(unix.RTA_OIF, nativeUint32(index)))
}

func deviceIndex(device string) (uint32, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return 0, err
	}
	return uint32(i.Index), nil
}

func addressFamily(p netip.Prefix) byte {
	if p.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// linkHeader is the header of a message about a device. The message also sets these flags of the
// device.
func linkHeader(index, flags uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], index)
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], flags)
	return b
}

func cString(s string) []byte { return append([]byte(s), 0) }

func nativeUint32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func encodeAttribute(kind uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(data)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
	return append(b, make([]byte, -len(b)&(unix.RTA_ALIGNTO-1))...)
}

// sendRequest sends a message and returns the error that the kernel answers with.
func sendRequest(kind, flags uint16, about string, parts ...[]byte) error {
	body := slices.Concat(parts...)
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(m, make([]byte, 8)...) // sequence number and port, both unused
	m = append(m, body...)
	answer, err := exchangeMessage(m)
	if err == nil && (len(answer) < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR) {
		err = fmt.Errorf("the answer %x is not an acknowledgement", answer)
	}
	if err == nil {
		if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
			err = unix.Errno(-code)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	return nil
}

func exchangeMessage(m []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	return answer[:max(n, 0)], err
}
