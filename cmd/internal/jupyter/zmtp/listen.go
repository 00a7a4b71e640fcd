package zmtp

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// MaxPeers bounds the connections of a listener at one time.
const MaxPeers = 64

// A Listener accepts the connections of a Router or an XPub.
type Listener struct {
	kind   SocketType
	serve  func(*Conn)
	listen net.Listener
	unread atomic.Int64
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu          sync.Mutex
	handshaking []net.Conn          // before the end of their handshake, the oldest first
	peers       map[*Conn]struct{}  // after the handshake
	names       map[string]struct{} // identities in use
}

// Listen listens at an endpoint, such as "tcp://127.0.0.1:0" or "ipc:///run/x". For each peer it calls
// serve on a new goroutine; the connection is closed when serve returns. A peer with an identity that is
// in use is rejected, because replies to the two could not be told apart.
func Listen(endpoint string, kind SocketType, serve func(*Conn)) (*Listener, error) {
	network, address, err := splitEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	listen, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		kind: kind, serve: serve, listen: listen,
		peers: make(map[*Conn]struct{}), names: make(map[string]struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.tasks.Go(l.acceptConns)
	return l, nil
}

// Addr returns the address at which the listener listens.
func (l *Listener) Addr() net.Addr { return l.listen.Addr() }

// Close ends the listener and its connections, and returns once serve has returned for each.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.cancel() // under the lock, so that a connection that is accepted now is either counted or rejected
	for _, raw := range l.handshaking {
		raw.Close()
	}
	for c := range l.peers {
		c.closeWithoutWait()
	}
	l.mu.Unlock()
	err := l.listen.Close()
	l.tasks.Wait()
	return err
}

func (l *Listener) acceptConns() {
	for {
		raw, err := l.listen.Accept()
		if errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // the cause, such as too many open files, may be temporary
			continue
		}
		if l.admitConn(raw) {
			l.tasks.Go(func() { l.serveConn(raw) })
		} else {
			raw.Close()
		}
	}
}

// admitConn adds a connection. If there are too many, it closes the oldest connection without a
// finished handshake, so that unfinished handshakes cannot keep other clients out.
func (l *Listener) admitConn(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	if len(l.handshaking)+len(l.peers) >= MaxPeers {
		if len(l.handshaking) == 0 {
			return false
		}
		l.handshaking[0].Close()
		l.handshaking = l.handshaking[1:]
	}
	l.handshaking = append(l.handshaking, raw)
	return true
}

func (l *Listener) serveConn(raw net.Conn) {
	c, err := newConn(l.ctx, raw, l.kind, "", true, &l.unread)
	if !l.addPeer(raw, c, err) {
		return
	}
	defer func() {
		c.Close()
		l.mu.Lock()
		delete(l.peers, c)
		delete(l.names, c.identity)
		l.mu.Unlock()
	}()
	l.serve(c)
}

// addPeer adds a connection to the peers, unless its handshake failed or its identity is in use.
func (l *Listener) addPeer(raw net.Conn, c *Conn, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.handshaking {
		if f == raw {
			l.handshaking = append(l.handshaking[:i:i], l.handshaking[i+1:]...)
			break
		}
	}
	if err != nil {
		return false
	}
	if _, taken := l.names[c.identity]; taken && c.identity != "" || l.ctx.Err() != nil {
		c.closeWithoutWait()
		return false
	}
	l.peers[c] = struct{}{}
	l.names[c.identity] = struct{}{}
	return true
}
