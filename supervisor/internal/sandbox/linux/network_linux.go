package linux

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/broker"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/egressclient"
)

// setUpNetwork opens a socket that queries the sockets of the session's network. If the session has
// a separate network, it also brings up the loopback, for the session's own servers. That network
// has no other interface, so connections leave only through the monitor and the supervisor.
func (sb *ActiveSandbox) setUpNetwork() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	sb.checkStep("network", "", err)
	sb.SockDiagFD = fd
	if sb.plan.Network {
		return
	}
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], 1) // the loopback
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP)
	sb.checkStep("network", "", netlinkRequest(unix.NETLINK_ROUTE, broker.NetlinkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, up)))
	if sb.plan.Egress {
		sb.runSteps(sb.openDNSSocket)
	}
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

// openDNSSocket makes all addresses that can stand for names local, and opens the socket to which
// the session sends its DNS questions.
func (sb *ActiveSandbox) openDNSSocket() {
	address := egressclient.SessionAddress.As4()
	body := append([]byte{unix.AF_INET, egressclient.SessionPrefixBits, 0, unix.RT_SCOPE_UNIVERSE, 1, 0, 0, 0}, // of the loopback
		append([]byte{8, 0, unix.IFA_LOCAL, 0}, address[:]...)...)
	sb.checkStep("network", egressclient.SessionAddress.String(), netlinkRequest(unix.NETLINK_ROUTE, broker.NetlinkMessage(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE, body)))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	sb.checkStep("network", "", err)
	sb.checkStep("network", "127.0.0.1:53", unix.Bind(fd, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}))
	network, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	sb.checkStep("network", "", err)
	sb.Egress = egressclient.New(network, egressclient.SessionAddress, fd, sb.IsPending)
}
