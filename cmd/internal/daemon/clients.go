package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
)

// A connState is what the daemon knows of one connection.
type connState struct {
	id            string
	pid           int // the client's process; 0 if unknown
	since         time.Time
	author        string // the last name that the client gave
	client        *clientState
	subscriptions map[string]*subscription
	waitingCalls  map[*openSession]int // calls that wait for a session
	detached      bool                 // somebody has ended it: the client gets nothing back
}

// addConn notes a new connection.
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
	conn.Logger.Debug("a client connects", "client_pid", l.pid)
	return func() {
		d.removeConn(conn)
		conn.Logger.Debug("a client is gone")
	}
}

// removeConn ends everything that belongs to a connection. If its client has no other one, others
// can take its keyboards.
func (d *Daemon) removeConn(conn *rpcserver.Conn) {
	d.mu.Lock()
	l := d.connections[conn]
	delete(d.connections, conn)
	for id := range l.subscriptions {
		delete(d.subscriptions, id) // the watch's goroutine ends with the connection
	}
	var given []*writeLock
	if c := l.client; c.conn.Load() == conn {
		keyboards := slices.Collect(maps.Keys(c.writeLocks))
		given = slices.DeleteFunc(slices.Clone(keyboards), func(b *writeLock) bool { return !d.releaseLocked(b) })
		d.counter++
		c.disconnectOrder = d.counter
		if c.locksAtDisconnect = nil; c.id != "" && !l.detached {
			c.locksAtDisconnect = keyboards
		}
		if l.detached {
			clear(c.wantedLocks)
		}
	}
	d.mu.Unlock()
	for _, b := range given {
		b.announceRelease()
	}
}

// setAuthor notes the name that a client gives.
func (d *Daemon) setAuthor(conn *rpcserver.Conn, author string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil && author != "" {
		l.author = author
	}
}

// trackCall notes a call that waits for a session. The caller calls over when the call ends.
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

// clientLabel returns the log's name for a connection.
func (d *Daemon) clientLabel(conn *rpcserver.Conn) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil {
		return "a client that is gone"
	}
	return fmt.Sprintf("%s (%s, process %d)", cmp.Or(l.author, "a client"), l.id, l.pid)
}

// handleClients lists the clients. Calling it does not count as use.
func (d *Daemon) handleClients(_ context.Context, r *rpcserver.Request, p client.NameParams) (client.ClientList, error) {
	if p.Session != "" {
		if _, err := d.findSession(p.Session); err != nil {
			return client.ClientList{}, err
		}
	}
	all := client.ClientList{Clients: []client.ConnectedClient{}}
	entries := d.sortedSessions()
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn, l := range d.connections {
		a := client.ConnectedClient{Client: l.id, PID: l.pid, Author: l.author, Since: l.since, Self: conn == r.Conn, Sessions: []client.Attachment{}}
		for _, e := range entries {
			s := client.Attachment{Session: e.name, Calls: l.waitingCalls[e]}
			for _, w := range l.subscriptions {
				s.Watches = s.Watches || w.entry == e
			}
			for b := range l.client.writeLocks {
				if d.currentLockLocked(e) == b {
					s.WriteLock, s.LongLock = true, b.isLong
				}
			}
			s.Reader = e.readerName(l.client)
			some := s.Calls > 0 || s.Watches || s.WriteLock || s.Reader != ""
			if some && (p.Session == "" || p.Session == e.name) {
				a.Sessions = append(a.Sessions, s)
			}
		}
		if p.Session == "" || len(a.Sessions) > 0 {
			all.Clients = append(all.Clients, a)
		}
	}
	slices.SortFunc(all.Clients, func(a, b client.ConnectedClient) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// handleDetach ends another connection. Its turns go on, and others can take its keyboards.
func (d *Daemon) handleDetach(_ context.Context, r *rpcserver.Request, p client.DetachParams) (emptyResult, error) {
	d.noteUse()
	if err := checkAuthor(p.Author); err != nil {
		return emptyResult{}, err
	}
	d.setAuthor(r.Conn, p.Author)
	by := d.clientLabel(r.Conn)
	d.mu.Lock()
	var conn *rpcserver.Conn
	var watches []*subscription
	for c, l := range d.connections {
		if l.id == p.Client {
			conn, watches = c, slices.Collect(maps.Values(l.subscriptions))
			l.detached = true
		}
	}
	d.mu.Unlock()
	if conn == nil {
		return emptyResult{}, rpcserver.InvalidParams("client: there is no client %q now; connection/list names them", p.Client)
	}
	d.log.Info("a client is detached", "client", d.clientLabel(conn), "by", by)
	for _, w := range watches {
		_ = conn.Notify(client.MethodEnded, client.SubscriptionEnd{
			Subscription: w.id, Session: w.sessionName(), Reason: "you were detached by " + cmp.Or(p.Author, "another client"), Detached: true,
		})
	}
	conn.HangUp()
	return emptyResult{}, nil
}
