package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// maxKnownClients bounds the clients with an identity. Above it, the daemon forgets the client
	// that has been disconnected for longest.
	maxKnownClients = 1024

	// minIdentityBytes and maxIdentityBytes bound the id of a client, in bytes.
	minIdentityBytes = 16
	maxIdentityBytes = 64
)

// A clientState holds the reader names, write locks, progress tokens and requests of one client. A
// client with an identity keeps them when it connects again. A client without an identity loses
// them when its connection ends.
type clientState struct {
	id   string                         // "" without an identity
	conn atomic.Pointer[rpcserver.Conn] // nil or an ended one while the client is disconnected

	epoch             uint64                  // guarded by Daemon.mu; the epoch of its last connection
	disconnectOrder   uint64                  // guarded by Daemon.mu; grows with each disconnect of a client; 0 while it is connected
	writeLocks        map[*writeLock]bool     // guarded by Daemon.mu
	locksAtDisconnect []*writeLock            // guarded by Daemon.mu; the locks that it had when its connection ended
	wantedLocks       map[*openSession]string // guarded by Daemon.mu; the sessions whose lock it gets for its next turn, with its author name
	tokens            map[string]bool         // guarded by Daemon.mu; progress tokens of running preparations
	requests          recentRequests          // guarded by Daemon.mu
}

func newClientState(id string, conn *rpcserver.Conn) *clientState {
	c := &clientState{
		id: id, writeLocks: make(map[*writeLock]bool),
		wantedLocks: make(map[*openSession]string), tokens: make(map[string]bool),
	}
	c.conn.Store(conn)
	return c
}

// isConnected reports whether the client is connected.
func (c *clientState) isConnected() bool {
	conn := c.conn.Load()
	return conn != nil && conn.Context().Err() == nil
}

// disconnected returns a channel that is closed when the current connection of the client has
// ended.
func (c *clientState) disconnected() <-chan struct{} {
	if conn := c.conn.Load(); conn != nil {
		return conn.Context().Done()
	}
	over := make(chan struct{})
	close(over)
	return over
}

// clientOf returns the client of a connection. For a connection that has just ended, it returns a
// new, empty client.
func (d *Daemon) clientOf(conn *rpcserver.Conn) *clientState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil {
		return l.client
	}
	return newClientState("", conn)
}

// handleHello assigns a connection to the client with the given identity. The previous connection
// of the client ends at once, and its calls are cancelled; their turns continue.
func (d *Daemon) handleHello(_ context.Context, r *rpcserver.Request, p protocol.HelloParams) (protocol.HelloReply, error) {
	if !isIdentity(p.ID) {
		return protocol.HelloReply{}, rpcserver.InvalidParams("id: use %d to %d random letters, digits, hyphens and underscores", minIdentityBytes, maxIdentityBytes)
	}
	if p.Epoch == 0 {
		return protocol.HelloReply{}, rpcserver.InvalidParams("epoch is required: 1 for the first connection of a client, and one more for each later connection")
	}
	if !r.First {
		return protocol.HelloReply{}, rpcserver.InvalidParams("client/hello must be the first call of a connection")
	}
	c, known, before, err := d.attachClient(r.Conn, p)
	if err != nil {
		return protocol.HelloReply{}, err
	}
	if before != nil {
		before.Logger.Info("connection replaced by a newer one of the same client")
		before.Drop(errReplaced)
	}
	for _, b := range d.restoreWriteLocks(c) {
		b.announce()
	}
	return protocol.HelloReply{DaemonInfo: d.daemonInfo(), Known: known}, nil
}

// errReplaced ends a connection whose client has connected again.
var errReplaced = rpcserver.Errorf(rpcserver.CodeFailed, string(session.KindUnreachable), "the client has connected again")

// isIdentity reports whether id may be the identity of a client.
func isIdentity(id string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return len(id) >= minIdentityBytes && len(id) <= maxIdentityBytes && !strings.ContainsFunc(id, odd)
}

// attachClient assigns a connection to the client with an identity. before is the previous
// connection of the client, or nil if that has ended.
func (d *Daemon) attachClient(conn *rpcserver.Conn, p protocol.HelloParams) (c *clientState, known bool, before *rpcserver.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil {
		return nil, false, nil, errReplaced
	}
	c = d.knownClients[p.ID]
	switch {
	case c != nil && p.Epoch <= c.epoch:
		return nil, false, nil, rpcserver.InvalidParams("epoch is %d and must be above %d, the last one of this client", p.Epoch, c.epoch)
	case c != nil:
		known = true
		if c.isConnected() {
			before = c.conn.Load()
		}
	default:
		if err := d.evictClientLocked(); err != nil {
			return nil, false, nil, err
		}
		c = newClientState(p.ID, nil)
		d.knownClients[p.ID] = c
	}
	c.epoch, c.disconnectOrder = p.Epoch, 0
	c.conn.Store(conn)
	l.client = c
	return c, known, before, nil
}

// evictClientLocked forgets the client that has been disconnected for longest, if there are too
// many. The caller holds d.mu.
func (d *Daemon) evictClientLocked() error {
	if len(d.knownClients) < maxKnownClients {
		return nil
	}
	var oldest *clientState
	for _, c := range d.knownClients {
		if c.disconnectOrder > 0 && (oldest == nil || c.disconnectOrder < oldest.disconnectOrder) {
			oldest = c
		}
	}
	if oldest == nil {
		return session.Errorf(session.KindLimit, "the daemon knows %d clients, which is the limit, and all of them are connected", maxKnownClients)
	}
	delete(d.knownClients, oldest.id)
	return nil
}

// restoreWriteLocks gives a client the write locks that it had when its connection ended, unless
// another client has them. It returns the locks to announce.
func (d *Daemon) restoreWriteLocks(c *clientState) (announce []*writeLock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range c.locksAtDisconnect {
		if d.openSessions[b.entry.name] != b.entry || d.currentLockLocked(b.entry) != nil || !b.isLong && b.turn != activeTurn(b.entry) {
			continue
		}
		d.grantLocked(b)
		if b.isLong {
			announce = append(announce, b)
		}
	}
	c.locksAtDisconnect = nil
	return announce
}

// checkAuthor returns an error if name is not a valid author. "" is valid.
func checkAuthor(name string) error {
	if !protocol.IsAuthor(name) {
		return rpcserver.InvalidParams("author: use up to %d bytes of text, without control or invisible characters", protocol.MaxAuthorBytes)
	}
	return nil
}

// A connState holds what the daemon knows about one connection.
type connState struct {
	id            string
	pid           int // the client's process; 0 if unknown
	since         time.Time
	author        string // the last name that the client gave
	client        *clientState
	subscriptions map[string]*subscription
	waitingCalls  map[*openSession]int // calls that wait for a session
	detached      bool                 // ended by connection/detach: the client gets no locks back
	functionCalls clientCalls          // has its own lock
}

// A recentRequests holds the last named requests of one client, so that the client can repeat a call
// whose answer it did not get. It stores effects, such as the number of a turn, and no replies.
type recentRequests struct {
	byName map[string]*namedRequest
	order  []*namedRequest // the last to end are at the end
}
