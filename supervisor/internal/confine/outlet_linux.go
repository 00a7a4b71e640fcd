package confine

import (
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

// ownAddress is the session's own in the network in which addresses stand for names. With it
// the resolver of the system sees that there is IPv4 besides the loopback.
var ownAddress = netip.AddrFrom4([4]byte{198, 18, 0, 1})

const ownPrefix = 15

// A wayOut asks the supervisor for each connection that leaves the session.
type wayOut struct {
	socket  *outlet.Conn
	network int        // the session's network namespace; -1 if it has none of its own
	own     netip.Addr // where listeners are that have no better address
	begin   sync.Once  // of the thread that makes sockets there
	wanted  chan want  // for that thread
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*asked // by their numbers
	threads map[uint32]*asked // by those of their threads, of the last of each
}

// An asked is a connect that waits for the supervisor's answer.
type asked struct {
	id     uint64
	call   uint64 // the kernel's number of it
	thread uint32
	to     netip.AddrPort
	wait   bool
	answer chan unix.Errno // one
}

// A want is a socket of the session's network that is to be made.
type want struct {
	family int
	made   chan error // one, when fd is set or there is none
	fd     *int
}

// openNames makes all addresses that can stand for names local, and the socket to which the
// session sends its questions about names.
func (b *Box) openNames() {
	address := ownAddress.As4()
	body := append([]byte{unix.AF_INET, ownPrefix, 0, unix.RT_SCOPE_UNIVERSE, 1, 0, 0, 0}, // of the loopback
		append([]byte{8, 0, unix.IFA_LOCAL, 0}, address[:]...)...)
	b.step("network", ownAddress.String(), request(unix.NETLINK_ROUTE, message(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE, body)))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	b.step("network", "", err)
	b.step("network", "127.0.0.1:53", unix.Bind(fd, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}))
	network, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.step("network", "", err)
	b.names, b.out = fd, newWayOut(network, ownAddress)
}

func newWayOut(network int, own netip.Addr) *wayOut {
	return &wayOut{network: network, own: own, wanted: make(chan want), waiting: make(map[uint64]*asked), threads: make(map[uint32]*asked)}
}

// OpenOutlet begins to speak with the supervisor, if the plan has an outlet. end leads there.
func (b *Box) OpenOutlet(end *os.File) error {
	if b.out == nil {
		return nil
	}
	socket, err := outlet.Open(end)
	if err != nil {
		return err
	}
	b.out.socket = socket
	if b.names >= 0 {
		err = socket.Send(outlet.Message{Do: outlet.Names}, b.names)
		unix.Close(b.names)
	}
	go b.out.receive()
	return err
}

// receive hands out answers until the supervisor is gone.
func (w *wayOut) receive() {
	for {
		m, _, err := w.socket.Receive()
		w.mu.Lock()
		if err != nil {
			for id := range w.waiting {
				w.answered(id, unix.EACCES)
			}
			w.mu.Unlock()
			return
		}
		w.answered(m.ID, unix.Errno(m.Errno))
		w.mu.Unlock()
	}
}

// answered hands out an answer; w.mu is held.
func (w *wayOut) answered(id uint64, no unix.Errno) {
	a := w.waiting[id]
	if a == nil {
		return
	}
	delete(w.waiting, id)
	if w.threads[a.thread] == a {
		delete(w.threads, a.thread)
	}
	a.answer <- no
}

// ask asks whether the session may connect to an address. The connection has a number then.
func (b *Box) ask(n *notification, to netip.AddrPort, wait bool) (uint64, error) {
	w := b.out
	id, answer, again := b.expect(n, to, wait)
	if !again && w.socket.Send(outlet.Message{Do: outlet.Ask, ID: id, To: to, Wait: wait}, -1) != nil {
		w.mu.Lock()
		w.answered(id, unix.EACCES)
		w.mu.Unlock()
	}
	if no := b.await(n, id, answer); no != 0 {
		return id, no
	}
	return id, nil
}

// await waits for an answer. Nothing tells that a program was killed, so it looks; twice, because one
// that a signal interrupted makes its call again.
func (b *Box) await(n *notification, id uint64, answer <-chan unix.Errno) unix.Errno {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case no := <-answer:
			return no
		case <-tick.C:
		}
		if b.isHere(n.ID) {
			missed = 0
		} else if missed++; missed == 2 {
			b.out.giveUp(id, n.ID) // if the answer has not come meanwhile
		}
	}
}

// giveUp ends the wait of a call that is over, unless the connect is another call's now.
func (w *wayOut) giveUp(id, call uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.waiting[id]; a != nil && a.call == call {
		_ = w.socket.Send(outlet.Message{Do: outlet.Gone, ID: id}, -1)
		w.answered(id, unix.EINTR)
	}
}

// expect returns where the answer comes, and whether it is expected already. A thread makes one
// call at a time: the same connect again is one that a signal has ended for the kernel. It gets the
// answer in the place of the first, and a person is not asked for each signal.
func (b *Box) expect(n *notification, to netip.AddrPort, wait bool) (id uint64, answer <-chan unix.Errno, again bool) {
	w := b.out
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := make(chan unix.Errno, 1)
	a := w.threads[n.PID]
	switch again = a != nil && a.to == to && a.wait == wait; {
	case !again:
		w.last++
		a = &asked{id: w.last, call: n.ID, thread: n.PID, to: to, wait: wait, answer: mine}
		w.waiting[a.id], w.threads[n.PID] = a, a
	case b.isHere(a.call): // this one was overtaken, and is over itself
		mine <- unix.EINTR
	default:
		a.answer <- unix.EINTR // nobody hears it
		a.call, a.answer = n.ID, mine
	}
	return a.id, mine, again
}

// leaves returns where a connect of a TCP socket goes, if that is not the session itself.
func (b *Box) leaves(socket int, address []byte) (netip.AddrPort, bool) {
	to, ok := addressIn(address)
	if !ok || b.out == nil {
		return to, false
	}
	if b.out.network >= 0 && (to.Addr().IsLoopback() || to.Addr().IsUnspecified() || to.Addr() == ownAddress) {
		return to, false
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	return to, err == nil && kind == unix.SOCK_STREAM
}

// addressIn reads struct sockaddr_in or sockaddr_in6.
func addressIn(b []byte) (netip.AddrPort, bool) {
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

// connectOut connects a socket of the session to the supervisor, which dials in its place. A
// socket that waits for its connections learns how the dial went. Another one learns it by a
// reset: an event loop must not wait in this call.
func (b *Box) connectOut(n *notification, socket int, to netip.AddrPort) error {
	if to == outlet.Proxy && b.out.network < 0 {
		return b.meetFor(socket, to, outlet.Message{Do: outlet.Proxied})
	}
	flags, err := unix.FcntlInt(uintptr(socket), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	id, err := b.ask(n, to, flags&unix.O_NONBLOCK == 0)
	if err != nil {
		b.awaitSignal(n)
		return err
	}
	if err := control(b.calls, isValid, unsafe.Pointer(&n.ID)); err != nil {
		_ = b.out.socket.Send(outlet.Message{Do: outlet.Gone, ID: id}, -1)
		return err
	}
	return b.meetFor(socket, to, outlet.Message{Do: outlet.Connected, ID: id})
}

// meetFor connects a socket, and sends its other end with a message.
func (b *Box) meetFor(socket int, to netip.AddrPort, m outlet.Message) error {
	peer, err := b.out.meet(socket, to)
	if peer < 0 {
		if m.ID != 0 {
			_ = b.out.socket.Send(outlet.Message{Do: outlet.Gone, ID: m.ID}, -1)
		}
		return err
	}
	defer unix.Close(peer)
	if sent := b.out.socket.Send(m, peer); sent != nil {
		return unix.ECONNABORTED
	}
	return err
}

// meet connects a socket to one that it returns, through a listener that exists only for this.
// The listener is at the very address, so that the session sees its peer there, unless a
// server of the session has the port. The error is what connect(2) says, EINPROGRESS too.
func (w *wayOut) meet(socket int, to netip.AddrPort) (int, error) {
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
		at = mapped(at)
	}
	said := unix.Connect(socket, at)
	if said != nil && said != unix.EINPROGRESS {
		return -1, said
	}
	own, err := unix.Getsockname(socket)
	if err != nil {
		return -1, err
	}
	for range backlog + 1 { // the session may connect here by other calls, in the machine's network others may; those are closed
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}, 1000)
		if err == unix.EINTR {
			continue
		}
		peer, from, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if ready == 0 || err != nil {
			break
		}
		if addressOf(from) == addressOf(own) {
			return peer, said
		}
		unix.Close(peer)
	}
	_ = unix.Shutdown(socket, unix.SHUT_RDWR)
	return -1, unix.ECONNABORTED
}

const backlog = 16

// listen makes a listener in the session's network, at an address or beside it.
func (w *wayOut) listen(to netip.AddrPort) (int, error) {
	places := []unix.Sockaddr{&unix.SockaddrInet4{Addr: w.own.As4()}}
	family := unix.AF_INET
	switch a := to.Addr(); {
	case w.network < 0: // no address is ours to take
	case a.Is6():
		family, places = unix.AF_INET6, []unix.Sockaddr{&unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}}
	case netip.PrefixFrom(ownAddress, ownPrefix).Masked().Contains(a):
		places = []unix.Sockaddr{&unix.SockaddrInet4{Addr: a.As4(), Port: int(to.Port())}, places[0]}
	}
	for i, place := range places {
		fd, err := w.makeSocket(family)
		if err != nil {
			return -1, err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // leaves the port to the session's servers
		if err = unix.Bind(fd, place); err == nil {
			err = unix.Listen(fd, backlog)
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
func (w *wayOut) makeSocket(family int) (int, error) {
	if w.network < 0 {
		return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	w.begin.Do(func() {
		go func() {
			runtime.LockOSThread() // and never unlocked
			entered := unix.Setns(w.network, unix.CLONE_NEWNET)
			for want := range w.wanted {
				err := entered
				if err == nil {
					*want.fd, err = unix.Socket(want.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				}
				want.made <- err
			}
		}()
	})
	fd := -1
	one := want{family, make(chan error), &fd}
	w.wanted <- one
	err := <-one.made
	return fd, err
}

func mapped(a unix.Sockaddr) unix.Sockaddr {
	if v4, ok := a.(*unix.SockaddrInet4); ok {
		return &unix.SockaddrInet6{Port: v4.Port, Addr: netip.AddrFrom4(v4.Addr).As16()}
	}
	return a
}

func addressOf(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
