package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// network brings up the loopback of the session's own network, for the servers of the session.
// It keeps a socket that can ask about the sockets there. The network has nothing else, so
// nothing leads out.
func (b *Box) network() {
	if b.plan.Network {
		return
	}
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], 1) // the loopback
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP)
	b.step("network", "", request(unix.NETLINK_ROUTE, message(unix.RTM_NEWLINK, unix.NLM_F_ACK, up)))
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	b.step("network", "", err)
	b.sockets = fd
}

// message encodes a netlink message.
func message(kind, flags uint16, body []byte) []byte {
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(m, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	return append(m, body...)
}

// request sends a message and waits for its acknowledgement.
func request(protocol int, m []byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var buf [4096]byte
	n, _, err := unix.Recvfrom(s, buf[:], 0)
	if err != nil {
		return err
	}
	if n >= unix.NLMSG_HDRLEN+4 && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR {
		if code := int32(binary.NativeEndian.Uint32(buf[unix.NLMSG_HDRLEN:])); code != 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}

// boundInside reports whether a socket of the session's network is bound to a file.
func (b *Box) boundInside(device, inode uint32) (bool, error) {
	const (
		byFamily     = 20 // SOCK_DIAG_BY_FAMILY
		showFile     = 2  // UDIAG_SHOW_VFS
		attributeVFS = 1  // UNIX_DIAG_VFS
		sizeofAnswer = 16 // struct unix_diag_msg
	)
	q := make([]byte, 24) // struct unix_diag_req
	q[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in any state
	binary.NativeEndian.PutUint32(q[12:], showFile)
	if err := unix.Sendto(b.sockets, message(byFamily, unix.NLM_F_DUMP, q), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	buf := make([]byte, 1<<16)
	found := false
	for {
		n, _, err := unix.Recvfrom(b.sockets, buf, 0)
		if err != nil {
			return false, err
		}
		for rest := buf[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.NLMSG_HDRLEN || size > len(rest) {
				return false, unix.EBADMSG
			}
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return found, nil
			case unix.NLMSG_ERROR:
				return false, unix.EBADMSG
			}
			attributes := rest[min(unix.NLMSG_HDRLEN+sizeofAnswer, size):size]
			for len(attributes) >= 4 {
				l := int(binary.NativeEndian.Uint16(attributes))
				if l < 4 || l > len(attributes) {
					break
				}
				if binary.NativeEndian.Uint16(attributes[2:]) == attributeVFS && l >= 12 &&
					binary.NativeEndian.Uint32(attributes[4:]) == inode && binary.NativeEndian.Uint32(attributes[8:]) == device {
					found = true
				}
				attributes = attributes[min((l+3)&^3, len(attributes)):]
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}
