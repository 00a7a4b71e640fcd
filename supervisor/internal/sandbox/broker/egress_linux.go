package broker

import (
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
)

// OpenEgress connects to the supervisor over end, if the plan has egress.
func (b *Broker) OpenEgress(end *os.File) error {
	if b.Egress == nil {
		return nil
	}
	return b.Egress.OpenSupervisor(end)
}

// connectEgress connects a socket of the session to the supervisor, which dials on its behalf. A
// blocking socket gets the result of the dial. A non-blocking socket learns of a failure by a
// reset, because an event loop must not wait in this call.
func (b *Broker) connectEgress(n *seccompNotif, socket int, to netip.AddrPort) error {
	if to == egressipc.ProxyAddr && b.Egress.SharesNetwork() {
		return b.Egress.ConnectRelay(socket, to, egressipc.Packet{Do: egressipc.ProxySocket})
	}
	flags, err := unix.FcntlInt(uintptr(socket), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	id, err := b.Egress.AskSupervisor(n.ID, n.PID, to, flags&unix.O_NONBLOCK == 0)
	if err != nil {
		b.awaitSignal(n)
		return err
	}
	if err := callIoctl(b.NotifyFD, ioctlNotifIDValid, unsafe.Pointer(&n.ID)); err != nil {
		b.Egress.CancelConnect(id)
		return err
	}
	return b.Egress.ConnectRelay(socket, to, egressipc.Packet{Do: egressipc.ConnectionSocket, ID: id})
}
