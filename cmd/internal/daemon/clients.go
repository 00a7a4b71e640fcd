package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
)

// addConn registers a new connection. The server calls over when the connection ends.
func (d *Daemon) addConn(conn *rpcserver.Conn) (over func()) {
	l := &connState{
		pid: peerPID(conn.Stream()), since: time.Now(), client: newClientState("", conn),
		subscriptions: make(map[string]*subscription), waitingCalls: make(map[*openSession]int),
	}
	d.mu.Lock()
	d.counter++
	l.id = fmt.Sprintf("client-%d", d.counter)
	d.connections[conn] = l
	d.mu.Unlock()
	conn.Logger = d.log.With("client", l.id)
	conn.Logger.Debug("client connected", "client_pid", l.pid)
	return func() {
		d.removeConn(conn)
		conn.Logger.Debug("client disconnected")
	}
}

// removeConn removes everything that belongs to a connection. If its client has no newer one, the
// write locks of the client become free.
func (d *Daemon) removeConn(conn *rpcserver.Conn) {
	d.mu.Lock()
	l := d.connections[conn]
	delete(d.connections, conn)
	for id := range l.subscriptions {
		delete(d.subscriptions, id) // its goroutine ends with the connection
	}
	var released []*writeLock
	if c := l.client; c.conn.Load() == conn {
		for _, q := range c.requests.byName {
			q.absence.begin() // its calls end a moment later
		}
		locks := slices.Collect(maps.Keys(c.writeLocks))
		released = slices.DeleteFunc(slices.Clone(locks), func(b *writeLock) bool { return !d.releaseLocked(b) })
		d.counter++
		c.disconnectOrder = d.counter
		if c.locksAtDisconnect = nil; c.id != "" && !l.detached {
			c.locksAtDisconnect = locks
		}
		if l.detached {
			clear(c.wantedLocks)
		}
	}
	d.mu.Unlock()
	for _, b := range released {
		b.announceRelease()
	}
}

// trackCall counts a call that waits for a session. The caller calls over when the call ends.
func (d *Daemon) trackCall(conn *rpcserver.Conn, e *openSession) (over func()) {
	count := func(n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l := d.connections[conn]; l != nil {
			if l.waitingCalls[e] += n; l.waitingCalls[e] == 0 {
				delete(l.waitingCalls, e)
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// clientLabel returns the description of a connection for the log.
func (d *Daemon) clientLabel(conn *rpcserver.Conn) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil {
		return "a disconnected client"
	}
	return fmt.Sprintf("%s (%s, process %d)", cmp.Or(l.author, "a client"), l.id, l.pid)
}

// handleClients lists the clients. The call does not count as use.
func (d *Daemon) handleClients(_ context.Context, r *rpcserver.Request, p protocol.NameParams) (protocol.ClientList, error) {
	if p.Session != "" {
		if _, err := d.findSession(p.Session); err != nil {
			return protocol.ClientList{}, err
		}
	}
	all := protocol.ClientList{Clients: []protocol.ConnectedClient{}}
	entries := d.sortedSessions()
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn, l := range d.connections {
		a := protocol.ConnectedClient{Client: l.id, PID: l.pid, Author: l.author, Since: l.since, Self: conn == r.Conn, Sessions: []protocol.Attachment{}}
		for _, e := range entries {
			s := protocol.Attachment{Session: e.name, Calls: l.waitingCalls[e]}
			for _, w := range l.subscriptions {
				s.Watches = s.Watches || w.entry == e
			}
			for b := range l.client.writeLocks {
				if d.currentLockLocked(e) == b {
					s.WriteLock, s.LongLock = true, b.isLong
				}
			}
			s.Reader = e.readerName(l.client)
			isAttached := s.Calls > 0 || s.Watches || s.WriteLock || s.Reader != ""
			if isAttached && (p.Session == "" || p.Session == e.name) {
				a.Sessions = append(a.Sessions, s)
			}
		}
		if p.Session == "" || len(a.Sessions) > 0 {
			all.Clients = append(all.Clients, a)
		}
	}
	sort.SliceStable(all.Clients, func(i, j int) bool { return all.Clients[i].Since.Before(all.Clients[j].Since) })
	return all, nil
}

// handleDetach ends the connection of another client. Its turns continue, and its write locks
// become free.
func (d *Daemon) handleDetach(_ context.Context, r *rpcserver.Request, p protocol.DetachParams) (emptyResult, error) {
	d.noteUse()
	if err := checkAuthor(p.Author); err != nil {
		return emptyResult{}, err
	}
	d.setAuthor(r.Conn, p.Author)
	by := d.clientLabel(r.Conn)
	d.mu.Lock()
	var conn *rpcserver.Conn
	var subscriptions []*subscription
	for c, l := range d.connections {
		if l.id == p.Client {
			conn, subscriptions = c, slices.Collect(maps.Values(l.subscriptions))
			l.detached = true
		}
	}
	d.mu.Unlock()
	if conn == nil {
		return emptyResult{}, rpcserver.InvalidParams("no client %q; connection/list names the connected ones", p.Client)
	}
	d.log.Info("client detached", "client", d.clientLabel(conn), "by", by)
	for _, w := range subscriptions {
		_ = conn.Notify(protocol.MethodEnded, protocol.SubscriptionEnd{
			Subscription: w.id, Session: w.sessionName(), Reason: "you were detached by " + cmp.Or(p.Author, "another client"), Detached: true,
		})
	}
	conn.HangUp()
	return emptyResult{}, nil
}
