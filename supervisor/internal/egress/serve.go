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

	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

const (
	// maxConnections bounds the connections of a session at a time, with those that are dialled.
	maxConnections = 256

	// halfLimit bounds how long one direction lives on when the other has ended.
	halfLimit = time.Hour

	// chunk is after how many bytes a list of connections is brought up to date.
	chunk = 1 << 20
)

// A server serves one worker.
type server struct {
	p      *Policy
	outlet *outlet.Conn
	ctx    context.Context // ends with the stage
	wg     sync.WaitGroup

	proxy proxy

	mu       sync.Mutex
	open     map[uint64]*connection
	asked    map[uint64]context.CancelFunc // the questions of connects
	visitors int                           // of the proxy
}

// A connection is one connect of the session that was allowed, until it is over.
type connection struct {
	place
	stop    context.CancelFunc
	dialled chan struct{} // closed when outside or err is set
	outside *net.TCPConn
	err     error
}

// Serve serves one worker until its stage is gone, and ends its connections. It closes the
// outlet.
func (p *Policy) Serve(o *outlet.Conn) {
	ctx, stop := context.WithCancel(context.Background())
	s := &server{p: p, outlet: o, ctx: ctx, open: make(map[uint64]*connection), asked: make(map[uint64]context.CancelFunc)}
	s.proxy = newProxy(s, headLimit)
	for {
		m, file, err := o.Receive()
		if err != nil {
			break
		}
		s.take(m, file)
	}
	stop()
	_ = o.Close()
	s.wg.Wait()
	for _, c := range s.open { // their stage has not said what became of them
		if c.outside != nil {
			_ = c.outside.Close()
		}
	}
}

// take acts on one message, and owns its file.
func (s *server) take(m outlet.Message, file *os.File) {
	if file != nil {
		defer file.Close()
	}
	switch m.Do {
	case outlet.Names:
		if socket, err := net.FilePacketConn(file); err == nil {
			context.AfterFunc(s.ctx, func() { _ = socket.Close() })
			s.wg.Go(func() { s.p.serveNames(socket) })
		}
	case outlet.Ask:
		s.wg.Go(func() { s.ask(m) })
	case outlet.Connected:
		inside, err := net.FileConn(file)
		c := s.find(m.ID)
		switch socket, ok := inside.(*net.TCPConn); {
		case err == nil && ok && c != nil:
			s.wg.Go(func() { s.carry(m.ID, c, socket) })
		case err == nil:
			_ = inside.Close()
			s.drop(m.ID)
		}
	case outlet.Gone:
		s.drop(m.ID)
	case outlet.Proxied:
		inside, err := net.FileConn(file)
		socket, ok := inside.(*net.TCPConn)
		if err != nil || !ok {
			return
		}
		if !s.mayOpen(func() { s.visitors++ }) {
			_, _ = socket.SetLinger(0), socket.Close()
			return
		}
		s.wg.Go(func() {
			s.proxy.serve(newVisitor(socket))
			s.mu.Lock()
			s.visitors--
			s.mu.Unlock()
		})
	}
}

// mayOpen takes a connection in, unless there are too many.
func (s *server) mayOpen(take func()) bool {
	s.mu.Lock()
	full := len(s.open)+s.visitors >= maxConnections
	if !full {
		take()
	}
	s.mu.Unlock()
	if full {
		s.p.tellOnce("connections", "this session has "+strconv.Itoa(maxConnections)+" connections into the network; it gets no more until one ends")
	}
	return !full
}

// reach connects to a place for a session that waits for it, if it may go there.
func (s *server) reach(ctx context.Context, l place) (*net.TCPConn, error) {
	if !s.p.mayAsk(l) && !s.refused(ctx, l, "") {
		return nil, syscall.EACCES
	}
	ctx, stop := context.WithTimeout(ctx, dialLimit)
	defer stop()
	c, err := s.p.dial(ctx, l)
	s.dialled(l, err)
	return c, err
}

func (s *server) find(id uint64) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// ask answers whether the session may connect, and begins to dial.
func (s *server) ask(m outlet.Message) {
	errno := s.begin(m)
	_ = s.outlet.Send(outlet.Message{Do: outlet.Answer, ID: m.ID, Errno: int(errno)}, -1) // fails if the stage is gone
}

func (s *server) begin(m outlet.Message) syscall.Errno {
	l := s.p.placeAt(netip.AddrPortFrom(m.To.Addr(), m.To.Port()))
	if !s.p.mayAsk(l) && !s.isAllowed(m.ID, l) {
		return syscall.EACCES
	}
	ctx, stop := context.WithTimeout(s.ctx, dialLimit)
	c := &connection{place: l, stop: stop, dialled: make(chan struct{})}
	if !s.mayOpen(func() { s.open[m.ID] = c }) {
		stop()
		return syscall.ENOBUFS
	}
	s.wg.Go(func() {
		defer stop()
		c.outside, c.err = s.p.dial(ctx, l)
		s.dialled(l, c.err)
		close(c.dialled)
	})
	if !m.Wait {
		return 0
	}
	<-c.dialled
	if c.err != nil {
		s.drop(m.ID)
	}
	return errnoOf(c.err)
}

// isAllowed reports whether somebody allows a connect while it waits.
func (s *server) isAllowed(id uint64, l place) bool {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	s.mu.Lock()
	s.asked[id] = stop
	s.mu.Unlock()
	ok := s.refused(ctx, l, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, id)
	return ok && ctx.Err() == nil
}

// dialled notes the outcome of a dial.
func (s *server) dialled(l place, err error) {
	var refused *refusal
	switch {
	case err == nil:
		s.p.note(l, func(r *Reached) { r.Connections++ })
	case errors.As(err, &refused):
		s.refused(s.ctx, l, refused.Error())
	}
}

// refused notes that a place was refused, and reports whether it has been allowed meanwhile.
func (s *server) refused(ctx context.Context, l place, why string) bool {
	s.p.note(l, func(r *Reached) { r.Refused++ })
	return s.p.o.Refused != nil && s.p.o.Refused(ctx, l.String(), why) && why == ""
}

// drop gives up a connection that nobody inside wants.
func (s *server) drop(id uint64) {
	s.mu.Lock()
	c := s.open[id]
	delete(s.open, id)
	if stop := s.asked[id]; stop != nil {
		stop()
	}
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.stop()
	s.wg.Go(func() {
		if <-c.dialled; c.outside != nil {
			_ = c.outside.Close()
		}
	})
}

// carry carries the bytes of a connection that is dialled meanwhile.
func (s *server) carry(id uint64, c *connection, inside *net.TCPConn) {
	defer s.drop(id)
	defer inside.Close()
	<-c.dialled
	if c.err != nil {
		_ = inside.SetLinger(0) // the session sees a reset, as of a server that went away
		return
	}
	s.join(c.place, inside, c.outside)
}

// join copies bytes in both directions until both have ended. It may close either end.
func (s *server) join(l place, inside, outside *net.TCPConn) {
	defer context.AfterFunc(s.ctx, func() { _, _ = inside.Close(), outside.Close() })()
	var half sync.Once
	both := sync.WaitGroup{}
	direction := func(to, from *net.TCPConn, count func(*Reached, int64)) {
		err := s.copy(to, from, func(n int64) { s.p.note(l, func(r *Reached) { count(r, n) }) })
		if err != nil { // either end broke: so does the other
			_, _ = inside.SetLinger(0), outside.SetLinger(0)
			_, _ = inside.Close(), outside.Close()
			return
		}
		_ = to.CloseWrite()
		half.Do(func() {
			limit := time.Now().Add(halfLimit)
			_, _ = inside.SetDeadline(limit), outside.SetDeadline(limit)
		})
	}
	both.Go(func() { direction(outside, inside, func(r *Reached, n int64) { r.Sent += n }) })
	both.Go(func() { direction(inside, outside, func(r *Reached, n int64) { r.Received += n }) })
	both.Wait()
}

// copy copies until from ends. The kernel moves the bytes, which do not pass through here.
func (s *server) copy(to, from *net.TCPConn, count func(int64)) error {
	for {
		n, err := io.CopyN(to, from, chunk)
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
