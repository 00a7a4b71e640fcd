package confine

import (
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
)

// sessionAddress is the session's own in the network in which addresses stand for names. With it
// the resolver of the system sees that there is IPv4 besides the loopback.
var sessionAddress = netip.AddrFrom4([4]byte{198, 18, 0, 1})

const sessionPrefixBits = 15

// An egressClient asks the supervisor for each connection that leaves the session.
type egressClient struct {
	socket          *egressipc.Conn
	networkNS       int                // the session's network namespace; -1 if it has none of its own
	ownAddr         netip.Addr         // where listeners are that have no better address
	startOnce       sync.Once          // of the thread that makes sockets there
	requests        chan socketRequest // for that thread
	mu              sync.Mutex
	lastID          uint64
	pendingByID     map[uint64]*pendingConnect // by their numbers
	pendingByThread map[uint32]*pendingConnect // by those of their threads, of the last of each
}

// A pendingConnect is a connect that waits for the supervisor's answer.
type pendingConnect struct {
	id     uint64
	call   uint64 // the kernel's number of it
	thread uint32
	to     netip.AddrPort
	wait   bool
	answer chan unix.Errno // one
}

// A socketRequest is a socket of the session's network that is to be made.
type socketRequest struct {
	family int
	made   chan error // one, when fd is set or there is none
	fd     *int
}

// openDNSSocket makes all addresses that can stand for names local, and the socket to which the
// session sends its questions about names.
func (b *Sandbox) openDNSSocket() {
	address := sessionAddress.As4()
	body := append([]byte{unix.AF_INET, sessionPrefixBits, 0, unix.RT_SCOPE_UNIVERSE, 1, 0, 0, 0}, // of the loopback
		append([]byte{8, 0, unix.IFA_LOCAL, 0}, address[:]...)...)
	b.checkStep("network", sessionAddress.String(), netlinkRequest(unix.NETLINK_ROUTE, netlinkMessage(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE, body)))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	b.checkStep("network", "", err)
	b.checkStep("network", "127.0.0.1:53", unix.Bind(fd, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}))
	network, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.checkStep("network", "", err)
	b.dnsSocket, b.egress = fd, newEgressClient(network, sessionAddress)
}

func newEgressClient(network int, own netip.Addr) *egressClient {
	return &egressClient{networkNS: network, ownAddr: own, requests: make(chan socketRequest), pendingByID: make(map[uint64]*pendingConnect), pendingByThread: make(map[uint32]*pendingConnect)}
}

// OpenEgress begins to speak with the supervisor, if the plan has an outlet. end leads there.
func (b *Sandbox) OpenEgress(end *os.File) error {
	if b.egress == nil {
		return nil
	}
	socket, err := egressipc.NewConn(end)
	if err != nil {
		return err
	}
	b.egress.socket = socket
	if b.dnsSocket >= 0 {
		err = socket.Send(egressipc.Message{Do: egressipc.NameSocket}, b.dnsSocket)
		unix.Close(b.dnsSocket)
	}
	go b.egress.receiveAnswers()
	return err
}

// receiveAnswers hands out answers until the supervisor is gone.
func (w *egressClient) receiveAnswers() {
	for {
		m, _, err := w.socket.Receive()
		w.mu.Lock()
		if err != nil {
			for id := range w.pendingByID {
				w.deliverAnswer(id, unix.EACCES)
			}
			w.mu.Unlock()
			return
		}
		w.deliverAnswer(m.ID, unix.Errno(m.Errno))
		w.mu.Unlock()
	}
}

// deliverAnswer hands out an answer; w.mu is held.
func (w *egressClient) deliverAnswer(id uint64, no unix.Errno) {
	a := w.pendingByID[id]
	if a == nil {
		return
	}
	delete(w.pendingByID, id)
	if w.pendingByThread[a.thread] == a {
		delete(w.pendingByThread, a.thread)
	}
	a.answer <- no
}

// askSupervisor asks whether the session may connect to an address. The connection has a number then.
func (b *Sandbox) askSupervisor(n *seccompNotif, to netip.AddrPort, wait bool) (uint64, error) {
	w := b.egress
	id, answer, again := b.expectAnswer(n, to, wait)
	if !again && w.socket.Send(egressipc.Message{Do: egressipc.ConnectRequest, ID: id, To: to, Wait: wait}, -1) != nil {
		w.mu.Lock()
		w.deliverAnswer(id, unix.EACCES)
		w.mu.Unlock()
	}
	if no := b.awaitAnswer(n, id, answer); no != 0 {
		return id, no
	}
	return id, nil
}

// awaitAnswer waits for an answer. Nothing tells that a program was killed, so it looks; twice, because one
// that a signal interrupted makes its call again.
func (b *Sandbox) awaitAnswer(n *seccompNotif, id uint64, answer <-chan unix.Errno) unix.Errno {
	tick := time.NewTicker(pendingCheckInterval)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case no := <-answer:
			return no
		case <-tick.C:
		}
		if b.isPending(n.ID) {
			missed = 0
		} else if missed++; missed == 2 {
			b.egress.abandonCall(id, n.ID) // if the answer has not come meanwhile
		}
	}
}

// abandonCall ends the wait of a call that is over, unless the connect is another call's now.
func (w *egressClient) abandonCall(id, call uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.pendingByID[id]; a != nil && a.call == call {
		_ = w.socket.Send(egressipc.Message{Do: egressipc.ConnectCanceled, ID: id}, -1)
		w.deliverAnswer(id, unix.EINTR)
	}
}

// expectAnswer returns where the answer comes, and whether it is expected already. A thread makes one
// call at a time: the same connect again is one that a signal has ended for the kernel. It gets the
// answer in the place of the first, and a person is not asked for each signal.
func (b *Sandbox) expectAnswer(n *seccompNotif, to netip.AddrPort, wait bool) (id uint64, answer <-chan unix.Errno, again bool) {
	w := b.egress
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := make(chan unix.Errno, 1)
	a := w.pendingByThread[n.PID]
	switch again = a != nil && a.to == to && a.wait == wait; {
	case !again:
		w.lastID++
		a = &pendingConnect{id: w.lastID, call: n.ID, thread: n.PID, to: to, wait: wait, answer: mine}
		w.pendingByID[a.id], w.pendingByThread[n.PID] = a, a
	case b.isPending(a.call): // this one was overtaken, and is over itself
		mine <- unix.EINTR
	default:
		a.answer <- unix.EINTR // nobody hears it
		a.call, a.answer = n.ID, mine
	}
	return a.id, mine, again
}

// egressTarget returns where a connect of a TCP socket goes, if that is not the session itself.
func (b *Sandbox) egressTarget(socket int, address []byte) (netip.AddrPort, bool) {
	to, ok := parseSockaddr(address)
	if !ok || b.egress == nil {
		return to, false
	}
	if b.egress.networkNS >= 0 && (to.Addr().IsLoopback() || to.Addr().IsUnspecified() || to.Addr() == sessionAddress) {
		return to, false
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	return to, err == nil && kind == unix.SOCK_STREAM
}

// parseSockaddr reads struct sockaddr_in or sockaddr_in6.
func parseSockaddr(b []byte) (netip.AddrPort, bool) {
	if len(b) < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}, false
	}
	family, port := *(*uint16)(unsafe.Pointer(&b[0])), uint16(b[2])<<8|uint16(b[3])
	switch {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), true
	case family == unix.AF_INET6 && len(b) >= 24: // without the scope, as the kernel takes it
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// connectEgress connects a socket of the session to the supervisor, which dials in its place. A
// socket that waits for its connections learns how the dial went. Another one learns it by a
// reset: an event loop must not wait in this call.
func (b *Sandbox) connectEgress(n *seccompNotif, socket int, to netip.AddrPort) error {
	if to == egressipc.ProxyAddr && b.egress.networkNS < 0 {
		return b.connectRelay(socket, to, egressipc.Message{Do: egressipc.ProxySocket})
	}
	flags, err := unix.FcntlInt(uintptr(socket), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	id, err := b.askSupervisor(n, to, flags&unix.O_NONBLOCK == 0)
	if err != nil {
		b.awaitSignal(n)
		return err
	}
	if err := callIoctl(b.notifyFD, ioctlNotifIDValid, unsafe.Pointer(&n.ID)); err != nil {
		_ = b.egress.socket.Send(egressipc.Message{Do: egressipc.ConnectCanceled, ID: id}, -1)
		return err
	}
	return b.connectRelay(socket, to, egressipc.Message{Do: egressipc.ConnectionSocket, ID: id})
}

// connectRelay connects a socket, and sends its other end with a message.
func (b *Sandbox) connectRelay(socket int, to netip.AddrPort, m egressipc.Message) error {
	peer, err := b.egress.connectPair(socket, to)
	if peer < 0 {
		if m.ID != 0 {
			_ = b.egress.socket.Send(egressipc.Message{Do: egressipc.ConnectCanceled, ID: m.ID}, -1)
		}
		return err
	}
	defer unix.Close(peer)
	if sent := b.egress.socket.Send(m, peer); sent != nil {
		return unix.ECONNABORTED
	}
	return err
}

// connectPair connects a socket to one that it returns, through a listener that exists only for this.
// The listener is at the very address, so that the session sees its peer there, unless a
// server of the session has the port. The error is what connect(2) says, EINPROGRESS too.
func (w *egressClient) connectPair(socket int, to netip.AddrPort) (int, error) {
	listener, err := w.listen(to)
	if err != nil {
		return -1, err
	}
	defer unix.Close(listener)
	at, err := unix.Getsockname(listener)
	if err != nil {
		return -1, err
	}
	if domain, _ := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN); domain == unix.AF_INET6 {
		at = mappedSockaddr(at)
	}
	said := unix.Connect(socket, at)
	if said != nil && said != unix.EINPROGRESS {
		return -1, said
	}
	own, err := unix.Getsockname(socket)
	if err != nil {
		return -1, err
	}
	for range listenBacklog + 1 { // the session may connect here by other calls, in the machine's network others may; those are closed
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}, 1000)
		if err == unix.EINTR {
			continue
		}
		peer, from, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if ready == 0 || err != nil {
			break
		}
		if addrPortOf(from) == addrPortOf(own) {
			return peer, said
		}
		unix.Close(peer)
	}
	_ = unix.Shutdown(socket, unix.SHUT_RDWR)
	return -1, unix.ECONNABORTED
}

const listenBacklog = 16

// listen makes a listener in the session's network, at an address or beside it.
func (w *egressClient) listen(to netip.AddrPort) (int, error) {
	places := []unix.Sockaddr{&unix.SockaddrInet4{Addr: w.ownAddr.As4()}}
	family := unix.AF_INET
	switch a := to.Addr(); {
	case w.networkNS < 0: // no address is ours to take
	case a.Is6():
		family, places = unix.AF_INET6, []unix.Sockaddr{&unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}}
	case netip.PrefixFrom(sessionAddress, sessionPrefixBits).Masked().Contains(a):
		places = []unix.Sockaddr{&unix.SockaddrInet4{Addr: a.As4(), Port: int(to.Port())}, places[0]}
	}
	for i, place := range places {
		fd, err := w.makeSocket(family)
		if err != nil {
			return -1, err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // leaves the port to the session's servers
		if err = unix.Bind(fd, place); err == nil {
			err = unix.Listen(fd, listenBacklog)
		}
		if err == nil {
			return fd, nil
		}
		unix.Close(fd)
		if i == len(places)-1 {
			return -1, err
		}
	}
	return -1, unix.EADDRNOTAVAIL
}

// makeSocket makes a TCP socket in the session's network. A thread enters that for good when
// the first one is wanted.
func (w *egressClient) makeSocket(family int) (int, error) {
	if w.networkNS < 0 {
		return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	w.startOnce.Do(func() {
		go func() {
			runtime.LockOSThread() // and never unlocked
			entered := unix.Setns(w.networkNS, unix.CLONE_NEWNET)
			for want := range w.requests {
				err := entered
				if err == nil {
					*want.fd, err = unix.Socket(want.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				}
				want.made <- err
			}
		}()
	})
	fd := -1
	one := socketRequest{family, make(chan error), &fd}
	w.requests <- one
	err := <-one.made
	return fd, err
}

func mappedSockaddr(a unix.Sockaddr) unix.Sockaddr {
	if v4, ok := a.(*unix.SockaddrInet4); ok {
		return &unix.SockaddrInet6{Port: v4.Port, Addr: netip.AddrFrom4(v4.Addr).As16()}
	}
	return a
}

func addrPortOf(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
