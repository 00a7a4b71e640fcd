package daemon

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// maxCallers bounds the clients with an identity that the daemon knows. Beyond it, the one
	// that has been gone for longest is forgotten.
	maxCallers = 1024

	// leastIdentity and mostIdentity bound the id of a client, in bytes.
	leastIdentity = 16
	mostIdentity  = 64
)

// A caller is a client, to which names of readers, keyboards, tokens and requests belong. A
// client with an identity keeps them when it connects again; any other one is one connection.
type caller struct {
	id   string                   // "" without an identity
	conn atomic.Pointer[rpc.Conn] // its connection; one that has ended, or nil, while it has none

	epoch     uint64                 // guarded by Daemon.mu; of its last connection
	gone      uint64                 // guarded by Daemon.mu; numbers the ends of connections; 0 while it is connected
	keyboards map[*keyboardHold]bool // guarded by Daemon.mu
	lost      []*keyboardHold        // guarded by Daemon.mu; those that it had when its connection ended
	wants     map[*entry]string      // guarded by Daemon.mu; sessions whose keyboard it gets for its next turn, with its name
	tokens    map[string]bool        // guarded by Daemon.mu; tokens for which it gets progress of preparations
	requests  requests               // guarded by Daemon.mu
}

func newCaller(id string, conn *rpc.Conn) *caller {
	c := &caller{
		id: id, keyboards: make(map[*keyboardHold]bool),
		wants: make(map[*entry]string), tokens: make(map[string]bool),
	}
	c.conn.Store(conn)
	return c
}

// isHere reports whether the client is connected.
func (c *caller) isHere() bool {
	conn := c.conn.Load()
	return conn != nil && conn.Context().Err() == nil
}

// left is closed when the connection that the client has now has ended.
func (c *caller) left() <-chan struct{} {
	if conn := c.conn.Load(); conn != nil {
		return conn.Context().Done()
	}
	over := make(chan struct{})
	close(over)
	return over
}

// caller returns the client at a connection. One that was hung up meanwhile has nothing.
func (d *Daemon) caller(conn *rpc.Conn) *caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil {
		return l.caller
	}
	return newCaller("", conn)
}

// handleHello gives a connection to the client that says it is its own. The connection that the
// client had before ends at once, and the calls on it are cancelled; their turns go on.
func (d *Daemon) handleHello(_ context.Context, r *rpc.Request, p client.HelloParams) (client.Hello, error) {
	if !isIdentity(p.ID) {
		return client.Hello{}, rpc.InvalidParams("id: use %d to %d random letters, digits, hyphens and underscores", leastIdentity, mostIdentity)
	}
	if p.Epoch == 0 {
		return client.Hello{}, rpc.InvalidParams("epoch is required: 1 for the first connection of a client, and one more for each that follows")
	}
	if !r.First {
		return client.Hello{}, rpc.InvalidParams("client/hello is the first call of a connection")
	}
	c, known, before, err := d.welcome(r.Conn, p)
	if err != nil {
		return client.Hello{}, err
	}
	if before != nil {
		before.Logger.Info("a newer connection of the same client takes its place")
		before.Drop(errReplaced)
	}
	for _, b := range d.returnKeyboards(c) {
		b.entry.session.Notify(b.author + " has the keyboard")
	}
	return client.Hello{Info: d.info(), Known: known}, nil
}

// errReplaced ends a connection whose client has made another one.
var errReplaced = rpc.Errorf(rpc.CodeFailed, string(client.KindUnreachable), "the client has connected again")

func isIdentity(id string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return len(id) >= leastIdentity && len(id) <= mostIdentity && !strings.ContainsFunc(id, odd)
}

// welcome makes a connection that of the client with an identity. before is the one that it had,
// if that has not ended.
func (d *Daemon) welcome(conn *rpc.Conn, p client.HelloParams) (c *caller, known bool, before *rpc.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil {
		return nil, false, nil, errReplaced
	}
	c = d.callers[p.ID]
	switch {
	case c != nil && p.Epoch <= c.epoch:
		return nil, false, nil, rpc.InvalidParams("epoch %d of this client is over: it has connected with %d since", p.Epoch, c.epoch)
	case c != nil:
		known = true
		if c.isHere() {
			before = c.conn.Load()
		}
	default:
		if err := d.makeRoomForCallerLocked(); err != nil {
			return nil, false, nil, err
		}
		c = newCaller(p.ID, nil)
		d.callers[p.ID] = c
	}
	c.epoch, c.gone = p.Epoch, 0
	c.conn.Store(conn)
	l.caller = c
	return c, known, before, nil
}

// makeRoomForCallerLocked forgets the client that has been gone for longest, if there are too
// many. The caller holds d.mu.
func (d *Daemon) makeRoomForCallerLocked() error {
	if len(d.callers) < maxCallers {
		return nil
	}
	var oldest *caller
	for _, c := range d.callers {
		if c.gone > 0 && (oldest == nil || c.gone < oldest.gone) {
			oldest = c
		}
	}
	if oldest == nil {
		return session.Errorf(session.KindLimit, "%d clients that have said client/hello are the most", maxCallers)
	}
	delete(d.callers, oldest.id)
	return nil
}

// returnKeyboards gives a client the keyboards that it had when its connection ended, unless
// somebody else has them. It returns those of which others were told.
func (d *Daemon) returnKeyboards(c *caller) (announce []*keyboardHold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range c.lost {
		if d.entries[b.entry.name] != b.entry || d.keyboardLocked(b.entry) != nil || !b.long && b.turn != active(b.entry) {
			continue
		}
		d.giveLocked(b)
		if b.long {
			announce = append(announce, b)
		}
	}
	c.lost = nil
	return announce
}
