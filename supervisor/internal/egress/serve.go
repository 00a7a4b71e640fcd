package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
)

const (
	// maxConnections bounds the concurrent connections of a session, including those being dialled.
	maxConnections = 256

	// halfOpenTimeout bounds how long one direction stays open after the other has ended.
	halfOpenTimeout = time.Hour

	// copyChunkBytes is the number of bytes after which the record of a destination is updated.
	copyChunkBytes = 1 << 20
)

// An egressServer serves the network requests of one worker, which its monitor sends over the egress
// socket.
type egressServer struct {
	policy *HostPolicy
	conn   *egressipc.Conn
	ctx    context.Context // ends with the monitor
	wg     sync.WaitGroup

	proxy proxy

	mu              sync.Mutex
	connections     map[uint64]*connection
	pendingRequests map[uint64]context.CancelFunc // connects that wait for the user's decision
	proxyConns      int                           // open connections to the proxy
}

// A connection is an allowed connect of the session, from its request until its bytes are copied.
type connection struct {
	destination
	cancel   context.CancelFunc
	dialDone chan struct{} // closed when outside or err is set
	outside  *net.TCPConn
	err      error
}

// Serve serves one worker until its monitor is gone, then ends its connections and closes o.
func (p *HostPolicy) Serve(o *egressipc.Conn) {
	ctx, stop := context.WithCancel(context.Background())
	s := &egressServer{policy: p, conn: o, ctx: ctx, connections: make(map[uint64]*connection), pendingRequests: make(map[uint64]context.CancelFunc)}
	s.proxy = newProxy(s, headTimeout)
	for {
		m, file, err := o.Receive()
		if err != nil {
			break
		}
		s.handleMessage(m, file)
	}
	stop()
	_ = o.Close()
	s.wg.Wait()
	for _, c := range s.connections { // their monitor ended without passing on their sockets
		if c.outside != nil {
			_ = c.outside.Close()
		}
	}
}

// handleMessage acts on one message and takes ownership of its file.
func (s *egressServer) handleMessage(m egressipc.Packet, file *os.File) {
	if file != nil {
		defer file.Close()
	}
	switch m.Do {
	case egressipc.NameSocket:
		if socket, err := net.FilePacketConn(file); err == nil {
			context.AfterFunc(s.ctx, func() { _ = socket.Close() })
			s.wg.Go(func() { s.policy.serveNames(socket) })
		}
	case egressipc.ConnectRequest:
		s.wg.Go(func() { s.answerRequest(m) })
	case egressipc.ConnectionSocket:
		inside, err := net.FileConn(file)
		c := s.findConnection(m.ID)
		switch socket, ok := inside.(*net.TCPConn); {
		case err == nil && ok && c != nil:
			s.wg.Go(func() { s.carryConnection(m.ID, c, socket) })
		case err == nil:
			_ = inside.Close()
			s.dropConnection(m.ID)
		}
	case egressipc.ConnectCanceled:
		s.dropConnection(m.ID)
	case egressipc.ProxySocket:
		inside, err := net.FileConn(file)
		socket, ok := inside.(*net.TCPConn)
		if err != nil || !ok {
			return
		}
		if !s.addConnection(func() { s.proxyConns++ }) {
			_, _ = socket.SetLinger(0), socket.Close()
			return
		}
		s.wg.Go(func() {
			s.proxy.serveConn(newProxyConn(socket))
			s.mu.Lock()
			s.proxyConns--
			s.mu.Unlock()
		})
	}
}

// addConnection calls take to register a connection, unless there are too many.
func (s *egressServer) addConnection(take func()) bool {
	s.mu.Lock()
	full := len(s.connections)+s.proxyConns >= maxConnections
	if !full {
		take()
	}
	s.mu.Unlock()
	if full {
		s.policy.notifyOnce("connections", "this session has "+strconv.Itoa(maxConnections)+" network connections, the maximum; further ones fail until one ends")
	}
	return !full
}

// connectTo connects to a destination on behalf of a waiting session, if the policy or the user
// allows it.
func (s *egressServer) connectTo(ctx context.Context, l destination) (*net.TCPConn, error) {
	if !s.policy.mayConnect(l) && !s.recordRefusal(ctx, l, "") {
		return nil, syscall.EACCES
	}
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	c, err := s.policy.dialDestination(ctx, l)
	s.recordDial(l, err)
	return c, err
}

func (s *egressServer) findConnection(id uint64) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections[id]
}

// answerRequest answers whether the session may connect, and starts to dial.
func (s *egressServer) answerRequest(m egressipc.Packet) {
	errno := s.startDial(m)
	_ = s.conn.Send(egressipc.Packet{Do: egressipc.ConnectAnswer, ID: m.ID, Errno: int(errno)}, -1) // fails if the monitor is gone
}

func (s *egressServer) startDial(m egressipc.Packet) syscall.Errno {
	l := s.policy.destinationAt(netip.AddrPortFrom(m.To.Addr(), m.To.Port()))
	if !s.policy.mayConnect(l) && !s.isAllowed(m.ID, l) {
		return syscall.EACCES
	}
	ctx, stop := context.WithTimeout(s.ctx, dialTimeout)
	c := &connection{destination: l, cancel: stop, dialDone: make(chan struct{})}
	if !s.addConnection(func() { s.connections[m.ID] = c }) {
		stop()
		return syscall.ENOBUFS
	}
	s.wg.Go(func() {
		defer stop()
		c.outside, c.err = s.policy.dialDestination(ctx, l)
		s.recordDial(l, c.err)
		close(c.dialDone)
	})
	if !m.Wait {
		return 0
	}
	<-c.dialDone
	if c.err != nil {
		s.dropConnection(m.ID)
	}
	return errnoOf(c.err)
}

// isAllowed reports whether the user allows a connect while it waits.
func (s *egressServer) isAllowed(id uint64, l destination) bool {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	s.mu.Lock()
	s.pendingRequests[id] = stop
	s.mu.Unlock()
	ok := s.recordRefusal(ctx, l, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pendingRequests, id)
	return ok && ctx.Err() == nil
}

// recordDial records the result of a dial.
func (s *egressServer) recordDial(l destination, err error) {
	var refused *blockedAddressError
	switch {
	case err == nil:
		s.policy.recordUse(l, func(r *DestinationUse) { r.Connections++ })
	case errors.As(err, &refused):
		s.recordRefusal(s.ctx, l, refused.Error())
	}
}

// recordRefusal records that a destination was refused, and reports whether the user has allowed it
// in the meantime.
func (s *egressServer) recordRefusal(ctx context.Context, l destination, why string) bool {
	s.policy.recordUse(l, func(r *DestinationUse) { r.Refused++ })
	return s.policy.options.OnRefused != nil && s.policy.options.OnRefused(ctx, l.String(), why) && why == ""
}

// dropConnection abandons a connection that the session no longer wants.
func (s *egressServer) dropConnection(id uint64) {
	s.mu.Lock()
	c := s.connections[id]
	delete(s.connections, id)
	if stop := s.pendingRequests[id]; stop != nil {
		stop()
	}
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.cancel()
	s.wg.Go(func() {
		if <-c.dialDone; c.outside != nil {
			_ = c.outside.Close()
		}
	})
}

// carryConnection copies the bytes of a connection, once its dial has succeeded.
func (s *egressServer) carryConnection(id uint64, c *connection, inside *net.TCPConn) {
	defer s.dropConnection(id)
	defer inside.Close()
	<-c.dialDone
	if c.err != nil {
		_ = inside.SetLinger(0) // the session sees a reset, as from a server that went away
		return
	}
	s.copyBoth(c.destination, inside, c.outside)
}

// copyBoth copies bytes in both directions until both have ended. It may close either end.
func (s *egressServer) copyBoth(l destination, inside, outside *net.TCPConn) {
	defer context.AfterFunc(s.ctx, func() { _, _ = inside.Close(), outside.Close() })()
	var half sync.Once
	both := sync.WaitGroup{}
	direction := func(to, from *net.TCPConn, count func(*DestinationUse, int64)) {
		err := s.copyDirection(to, from, func(n int64) { s.policy.recordUse(l, func(r *DestinationUse) { count(r, n) }) })
		if err != nil { // a broken end breaks the other
			_, _ = inside.SetLinger(0), outside.SetLinger(0)
			_, _ = inside.Close(), outside.Close()
			return
		}
		_ = to.CloseWrite()
		half.Do(func() {
			limit := time.Now().Add(halfOpenTimeout)
			_, _ = inside.SetDeadline(limit), outside.SetDeadline(limit)
		})
	}
	both.Go(func() { direction(outside, inside, func(r *DestinationUse, n int64) { r.Sent += n }) })
	both.Go(func() { direction(inside, outside, func(r *DestinationUse, n int64) { r.Received += n }) })
	both.Wait()
}

// copyDirection copies until from ends. The kernel splices the bytes, so they do not pass through
// this process's memory.
func (s *egressServer) copyDirection(to, from *net.TCPConn, count func(int64)) error {
	for {
		n, err := io.CopyN(to, from, copyChunkBytes)
		if n > 0 {
			count(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
