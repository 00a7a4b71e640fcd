package egressclient

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

// SessionAddress is the session's own address in the network whose addresses stand for names.
// Because of it, the system's resolver sees that IPv4 exists besides the loopback.
var SessionAddress = netip.AddrFrom4([4]byte{198, 18, 0, 1})

// SessionPrefixBits is the length of the prefix of the addresses that stand for names.
const SessionPrefixBits = 15

// A Connector asks the supervisor about each connection that leaves the session.
type Connector struct {
	socket          *egressipc.Conn
	networkNS       int        // the session's network namespace; -1 if it shares the machine's
	ownAddr         netip.Addr // the default address of listeners
	dnsSocket       int        // the socket for the session's DNS questions; -1 if there is none
	isPending       func(call uint64) bool
	startOnce       sync.Once          // starts the thread that makes sockets there
	requests        chan socketRequest // for that thread
	mu              sync.Mutex
	lastID          uint64
	pendingByID     map[uint64]*pendingConnect // by ID
	pendingByThread map[uint32]*pendingConnect // the latest connect of each thread
}

// A pendingConnect is a connect that waits for the supervisor's answer.
type pendingConnect struct {
	id     uint64
	call   uint64 // the kernel's ID of the call
	thread uint32
	to     netip.AddrPort
	wait   bool
	answer chan unix.Errno // buffered, receives one answer
}

// A socketRequest asks for a new socket in the session's network namespace.
type socketRequest struct {
	family int
	done   chan error // receives one result, after fd is set on success
	fd     *int
}

// New returns a connector for a session in a network namespace, or -1 for the machine's.
// isPending reports whether a call of the session still waits.
func New(network int, own netip.Addr, dnsSocket int, isPending func(call uint64) bool) *Connector {
	return &Connector{networkNS: network, ownAddr: own, dnsSocket: dnsSocket, isPending: isPending, requests: make(chan socketRequest), pendingByID: make(map[uint64]*pendingConnect), pendingByThread: make(map[uint32]*pendingConnect)}
}

// OpenSupervisor connects to the supervisor over end.
func (c *Connector) OpenSupervisor(end *os.File) error {
	socket, err := egressipc.NewConn(end)
	if err != nil {
		return err
	}
	c.socket = socket
	if c.dnsSocket >= 0 {
		err = socket.Send(egressipc.Packet{Do: egressipc.NameSocket}, c.dnsSocket)
		unix.Close(c.dnsSocket)
	}
	go c.receiveAnswers()
	return err
}

// CancelConnect tells the supervisor that no program waits for a connection any more.
func (c *Connector) CancelConnect(id uint64) {
	_ = c.socket.Send(egressipc.Packet{Do: egressipc.ConnectCanceled, ID: id}, -1)
}

// SharesNetwork reports whether the session shares the machine's network.
func (c *Connector) SharesNetwork() bool { return c.networkNS < 0 }

// receiveAnswers delivers answers until the supervisor is gone.
func (c *Connector) receiveAnswers() {
	for {
		m, _, err := c.socket.Receive()
		c.mu.Lock()
		if err != nil {
			for id := range c.pendingByID {
				c.deliverAnswer(id, unix.EACCES)
			}
			c.mu.Unlock()
			return
		}
		c.deliverAnswer(m.ID, unix.Errno(m.Errno))
		c.mu.Unlock()
	}
}

// deliverAnswer delivers the answer to a pending connect; c.mu must be held.
func (c *Connector) deliverAnswer(id uint64, no unix.Errno) {
	a := c.pendingByID[id]
	if a == nil {
		return
	}
	delete(c.pendingByID, id)
	if c.pendingByThread[a.thread] == a {
		delete(c.pendingByThread, a.thread)
	}
	a.answer <- no
}

// AskSupervisor asks whether the session may connect to an address. It returns the ID of the
// connection.
func (c *Connector) AskSupervisor(call uint64, thread uint32, to netip.AddrPort, wait bool) (uint64, error) {
	id, answer, again := c.expectAnswer(call, thread, to, wait)
	if !again && c.socket.Send(egressipc.Packet{Do: egressipc.ConnectRequest, ID: id, To: to, Wait: wait}, -1) != nil {
		c.mu.Lock()
		c.deliverAnswer(id, unix.EACCES)
		c.mu.Unlock()
	}
	if no := c.awaitAnswer(call, id, answer); no != 0 {
		return id, no
	}
	return id, nil
}

// pendingCheckInterval is how often a connect checks whether its program still waits. Nothing reports
// that a program was killed.
const pendingCheckInterval = time.Second

// awaitAnswer waits for an answer. The kernel does not report that a program was killed, so it
// polls. It needs two misses, because a program that a signal interrupted repeats its call.
func (c *Connector) awaitAnswer(call, id uint64, answer <-chan unix.Errno) unix.Errno {
	tick := time.NewTicker(pendingCheckInterval)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case no := <-answer:
			return no
		case <-tick.C:
		}
		if c.isPending(call) {
			missed = 0
		} else if missed++; missed == 2 {
			c.abandonCall(id, call) // no effect if the answer has arrived by now
		}
	}
}

// abandonCall ends the wait of a call that is gone, unless another call has taken over the connect.
func (c *Connector) abandonCall(id, call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.pendingByID[id]; a != nil && a.call == call {
		_ = c.socket.Send(egressipc.Packet{Do: egressipc.ConnectCanceled, ID: id}, -1)
		c.deliverAnswer(id, unix.EINTR)
	}
}

// expectAnswer returns the channel of the answer, and whether the question was already sent. A
// thread makes one call at a time, so the same connect again is one that a signal has interrupted.
// It takes over the pending answer, so that the user is not asked once per signal.
func (c *Connector) expectAnswer(call uint64, thread uint32, to netip.AddrPort, wait bool) (id uint64, answer <-chan unix.Errno, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := make(chan unix.Errno, 1)
	a := c.pendingByThread[thread]
	switch again = a != nil && a.to == to && a.wait == wait; {
	case !again:
		c.lastID++
		a = &pendingConnect{id: c.lastID, call: call, thread: thread, to: to, wait: wait, answer: own}
		c.pendingByID[a.id], c.pendingByThread[thread] = a, a
	case c.isPending(a.call): // the earlier call is still pending, so this one is stale
		own <- unix.EINTR
	default:
		a.answer <- unix.EINTR // unblocks the earlier wait, whose caller is gone
		a.call, a.answer = call, own
	}
	return a.id, own, again
}

// Target returns the target of a connect of a TCP socket, and whether it leaves the session.
func (c *Connector) Target(socket int, address []byte) (netip.AddrPort, bool) {
	to, ok := ParseSockaddr(address)
	if !ok || c == nil {
		return to, false
	}
	if c.networkNS >= 0 && (to.Addr().IsLoopback() || to.Addr().IsUnspecified() || to.Addr() == SessionAddress) {
		return to, false
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	return to, err == nil && kind == unix.SOCK_STREAM
}

// ParseSockaddr parses a struct sockaddr_in or sockaddr_in6; false means that b is neither.
func ParseSockaddr(b []byte) (netip.AddrPort, bool) {
	if len(b) < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}, false
	}
	family, port := *(*uint16)(unsafe.Pointer(&b[0])), uint16(b[2])<<8|uint16(b[3])
	switch {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), true
	case family == unix.AF_INET6 && len(b) >= 24: // the scope is optional, as for the kernel
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// ConnectRelay connects a socket and sends its peer to the supervisor with a message.
func (c *Connector) ConnectRelay(socket int, to netip.AddrPort, m egressipc.Packet) error {
	peer, err := c.connectPair(socket, to)
	if peer < 0 {
		if m.ID != 0 {
			_ = c.socket.Send(egressipc.Packet{Do: egressipc.ConnectCanceled, ID: m.ID}, -1)
		}
		return err
	}
	defer unix.Close(peer)
	if sendErr := c.socket.Send(m, peer); sendErr != nil {
		return unix.ECONNABORTED
	}
	return err
}

// connectPair connects a socket to a new peer, which it returns, through a temporary listener. The
// listener is at the target's own address, so that the session sees its peer there, unless a server
// of the session uses the port. The error is that of connect(2), including EINPROGRESS.
func (c *Connector) connectPair(socket int, to netip.AddrPort) (int, error) {
	listener, err := c.listen(to)
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
	connectErr := unix.Connect(socket, at)
	if connectErr != nil && connectErr != unix.EINPROGRESS {
		return -1, connectErr
	}
	own, err := unix.Getsockname(socket)
	if err != nil {
		return -1, err
	}
	for range listenBacklog + 1 { // other connections, by the session or in a shared network, are closed
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}, 1000)
		if err == unix.EINTR {
			continue
		}
		peer, from, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if ready == 0 || err != nil {
			break
		}
		if addrPortOf(from) == addrPortOf(own) {
			return peer, connectErr
		}
		unix.Close(peer)
	}
	_ = unix.Shutdown(socket, unix.SHUT_RDWR)
	return -1, unix.ECONNABORTED
}

const listenBacklog = 16

// listen creates a listener in the session's network, at the target's address or else at ownAddr.
func (c *Connector) listen(to netip.AddrPort) (int, error) {
	addresses := []unix.Sockaddr{&unix.SockaddrInet4{Addr: c.ownAddr.As4()}}
	family := unix.AF_INET
	switch a := to.Addr(); {
	case c.networkNS < 0: // a shared network: no address is reserved for the session
	case a.Is6():
		family, addresses = unix.AF_INET6, []unix.Sockaddr{&unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}}
	case netip.PrefixFrom(SessionAddress, SessionPrefixBits).Masked().Contains(a):
		addresses = []unix.Sockaddr{&unix.SockaddrInet4{Addr: a.As4(), Port: int(to.Port())}, addresses[0]}
	}
	for i, address := range addresses {
		fd, err := c.makeSocket(family)
		if err != nil {
			return -1, err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // keeps the port available to the session's servers
		if err = unix.Bind(fd, address); err == nil {
			err = unix.Listen(fd, listenBacklog)
		}
		if err == nil {
			return fd, nil
		}
		unix.Close(fd)
		if i == len(addresses)-1 {
			return -1, err
		}
	}
	return -1, unix.EADDRNOTAVAIL
}

// makeSocket creates a TCP socket in the session's network. The first call starts a thread that
// enters that network permanently.
func (c *Connector) makeSocket(family int) (int, error) {
	if c.networkNS < 0 {
		return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	c.startOnce.Do(func() {
		go func() {
			runtime.LockOSThread() // never unlocked
			setnsErr := unix.Setns(c.networkNS, unix.CLONE_NEWNET)
			for request := range c.requests {
				err := setnsErr
				if err == nil {
					*request.fd, err = unix.Socket(request.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				}
				request.done <- err
			}
		}()
	})
	fd := -1
	request := socketRequest{family, make(chan error), &fd}
	c.requests <- request
	err := <-request.done
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
