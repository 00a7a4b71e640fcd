package linux

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// setUpNetwork opens a socket that queries the sockets of the session's network. If the session has
// a separate network, it also brings up the loopback, for the session's own servers. Nothing else
// is there, so connections leave only through the monitor and the supervisor.
func (sb *ActiveSandbox) setUpNetwork() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	sb.checkStep("network", "", err)
	sb.sockDiagFD = fd
	if sb.plan.Network {
		return
	}
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], 1) // the loopback
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP)
	sb.checkStep("network", "", netlinkRequest(unix.NETLINK_ROUTE, netlinkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, up)))
	if sb.plan.Egress {
		sb.runSteps(sb.openDNSSocket)
	}
}

// netlinkMessage encodes a netlink message.
func netlinkMessage(kind, flags uint16, body []byte) []byte {
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(m, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	return append(m, body...)
}

// netlinkRequest sends a message and waits for its acknowledgement.
func netlinkRequest(protocol int, m []byte) error {
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
