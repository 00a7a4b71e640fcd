package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
)

// A connState is what the daemon knows of one connection.
type connState struct {
	id       string
	pid      int // the client's process; 0 if unknown
	since    time.Time
	author   string // the last name that the client gave
	caller   *caller
	watches  map[string]*watch
	calls    map[*entry]int // calls that wait for a session
	detached bool           // somebody has ended it: the client gets nothing back
}

// opened notes a new connection.
func (d *Daemon) opened(conn *rpc.Conn) (over func()) {
	l := &connState{
		pid: peerProcess(conn.Stream()), since: time.Now(), caller: newCaller("", conn),
		watches: make(map[string]*watch), calls: make(map[*entry]int),
	}
	d.mu.Lock()
	d.counter++
	l.id = fmt.Sprintf("client-%d", d.counter)
	d.connections[conn] = l
	d.mu.Unlock()
	conn.Logger = d.log.With("client", l.id)
	conn.Logger.Debug("a client connects", "client_pid", l.pid)
	return func() {
		d.hangUp(conn)
		conn.Logger.Debug("a client is gone")
	}
}

// hangUp ends everything that belongs to a connection. If its client has no other one, others
// can take its keyboards.
func (d *Daemon) hangUp(conn *rpc.Conn) {
	d.mu.Lock()
	l := d.connections[conn]
	delete(d.connections, conn)
	for id := range l.watches {
		delete(d.watches, id) // the watch's goroutine ends with the connection
	}
	var given []*keyboardHold
	if c := l.caller; c.conn.Load() == conn {
		keyboards := slices.Collect(maps.Keys(c.keyboards))
		given = slices.DeleteFunc(slices.Clone(keyboards), func(b *keyboardHold) bool { return !d.releaseLocked(b) })
		d.counter++
		c.gone = d.counter
		if c.lost = nil; c.id != "" && !l.detached {
			c.lost = keyboards
		}
		if l.detached {
			clear(c.wants)
		}
	}
	d.mu.Unlock()
	for _, b := range given {
		b.announceEnd()
	}
}

// named notes the name that a client gives.
func (d *Daemon) named(conn *rpc.Conn, author string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil && author != "" {
		l.author = author
	}
}

// calling notes a call that waits for a session. The caller calls over when the call ends.
func (d *Daemon) calling(conn *rpc.Conn, e *entry) (over func()) {
	count := func(n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l := d.connections[conn]; l != nil {
			if l.calls[e] += n; l.calls[e] == 0 {
				delete(l.calls, e)
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// who returns the log's name for a connection.
func (d *Daemon) who(conn *rpc.Conn) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil {
		return "a client that is gone"
	}
	return fmt.Sprintf("%s (%s, process %d)", cmp.Or(l.author, "a client"), l.id, l.pid)
}

// handleClients lists the clients. Calling it does not count as use.
func (d *Daemon) handleClients(_ context.Context, r *rpc.Request, p client.NameParams) (client.Clients, error) {
	if p.Session != "" {
		if _, err := d.known(p.Session); err != nil {
			return client.Clients{}, err
		}
	}
	all := client.Clients{Clients: []client.Attached{}}
	entries := d.all()
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn, l := range d.connections {
		a := client.Attached{Client: l.id, PID: l.pid, Author: l.author, Since: l.since, Self: conn == r.Conn, Sessions: []client.Attachment{}}
		for _, e := range entries {
			s := client.Attachment{Session: e.name, Calls: l.calls[e]}
			for _, w := range l.watches {
				s.Watches = s.Watches || w.entry == e
			}
			for b := range l.caller.keyboards {
				if d.keyboardLocked(e) == b {
					s.Keyboard, s.Holds = true, b.long
				}
			}
			s.Reads = e.readsAs(l.caller)
			some := s.Calls > 0 || s.Watches || s.Keyboard || s.Reads != ""
			if some && (p.Session == "" || p.Session == e.name) {
				a.Sessions = append(a.Sessions, s)
			}
		}
		if p.Session == "" || len(a.Sessions) > 0 {
			all.Clients = append(all.Clients, a)
		}
	}
	slices.SortFunc(all.Clients, func(a, b client.Attached) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// handleDetach ends another connection. Its turns go on, and others can take its keyboards.
func (d *Daemon) handleDetach(_ context.Context, r *rpc.Request, p client.DetachParams) (nothing, error) {
	d.used()
	if err := checkAuthor(p.Author); err != nil {
		return nothing{}, err
	}
	d.named(r.Conn, p.Author)
	by := d.who(r.Conn)
	d.mu.Lock()
	var conn *rpc.Conn
	var watches []*watch
	for c, l := range d.connections {
		if l.id == p.Client {
			conn, watches = c, slices.Collect(maps.Values(l.watches))
			l.detached = true
		}
	}
	d.mu.Unlock()
	if conn == nil {
		return nothing{}, rpc.InvalidParams("client: there is no client %q now; connection/list names them", p.Client)
	}
	d.log.Info("a client is detached", "client", d.who(conn), "by", by)
	for _, w := range watches {
		_ = conn.Notify(client.MethodEnded, client.Ended{
			Subscription: w.id, Session: w.name(), Reason: "you were detached by " + cmp.Or(p.Author, "another client"), Detached: true,
		})
	}
	conn.HangUp()
	return nothing{}, nil
}
