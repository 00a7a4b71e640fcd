package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

// A writeLock gives one client the sole right to write to a session. A lock for one turn keeps
// other clients from answering the input requests of that turn. Without a lock, the turns of all
// clients run one after the other.
type writeLock struct {
	entry  *openSession
	client *clientState
	author string
	isLong bool   // the client keeps it until a release, and it is announced to the other clients
	turn   uint64 // the only turn for which the lock is held, unless it is long
}

// A turnStarter is the client that started the last turn of a session.
type turnStarter struct {
	client *clientState
	turn   uint64
}

// checkWriteAccess returns an error if another client holds the write lock of a session.
func (d *Daemon) checkWriteAccess(e *openSession, c *clientState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.checkWriteAccessLocked(e, c)
}

// checkWriteAccessLocked is checkWriteAccess for a caller that holds d.mu.
func (d *Daemon) checkWriteAccessLocked(e *openSession, c *clientState) error {
	b := d.currentLockLocked(e)
	if b == nil || b.client == c {
		return nil
	}
	return &rpcserver.Error{
		Code: rpcserver.CodeFailed, Kind: string(session.KindLocked),
		Message: b.author + " has the write lock of this session; wait for its release, or take it away with repl detach",
		Data:    map[string]any{"write_lock_holder": b.author},
	}
}

// currentLockLocked returns the write lock of a session, or nil. A lock for one turn ends with that
// turn. The caller holds d.mu.
func (d *Daemon) currentLockLocked(e *openSession) *writeLock {
	b := d.writeLocks[e.name]
	if b == nil || b.entry != e || !b.isLong && b.turn != activeTurn(e) {
		return nil
	}
	return b
}

// activeTurn returns the number of the active turn, or 0.
func activeTurn(e *openSession) uint64 { return e.session.ActiveTurn() }

// grantLocked gives the write lock of a session to a client. A client that has just disconnected
// gets it when it connects again. The caller holds d.mu.
func (d *Daemon) grantLocked(b *writeLock) {
	if !b.client.isConnected() {
		if b.client.id != "" {
			b.client.locksAtDisconnect = append(b.client.locksAtDisconnect, b)
		}
		return
	}
	if before := d.writeLocks[b.entry.name]; before != nil {
		delete(before.client.writeLocks, before)
	}
	d.writeLocks[b.entry.name] = b
	b.client.writeLocks[b] = true
}

// startWithLock starts a turn for a client. If the client takes the write lock for this turn, no
// other client can answer an input request of the turn before the lock is in force.
func (d *Daemon) startWithLock(ctx context.Context, e *openSession, c *clientState, lock bool, author string, start func() (uint64, error)) (uint64, error) {
	select {
	case e.startLock <- struct{}{}:
		defer func() { <-e.startLock }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := d.checkWriteAccess(e, c); err != nil {
		return 0, err
	}
	turn, err := start()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.lastStarter = turnStarter{c, turn}
	if before, wanted := c.wantedLocks[e]; wanted && !lock {
		lock, author = true, before
	}
	delete(c.wantedLocks, e)
	if lock && d.currentLockLocked(e) == nil {
		d.grantLocked(&writeLock{entry: e, client: c, author: author, turn: turn})
	}
	return turn, nil
}

// checkAnswerAccess returns an error if a client may not answer the input requests of the active
// turn.
func (d *Daemon) checkAnswerAccess(ctx context.Context, e *openSession, c *clientState) error {
	select {
	case e.startLock <- struct{}{}: // a turn that is being started may come with a write lock
		defer func() { <-e.startLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.checkWriteAccess(e, c)
}

func (d *Daemon) handleTakeWriteLock(_ context.Context, r *rpcserver.Request, p protocol.WriteLockParams) (emptyResult, error) {
	d.noteUse()
	if p.Author == "" {
		return emptyResult{}, rpcserver.InvalidParams("author is required: other clients see who has the write lock")
	}
	if err := checkAuthor(p.Author); err != nil {
		return emptyResult{}, err
	}
	e, err := d.useSession(p.Session)
	if err != nil {
		return emptyResult{}, err
	}
	d.setAuthor(r.Conn, p.Author)
	granted, err := d.takeWriteLock(e, d.clientOf(r.Conn), p)
	if granted != nil {
		granted.announce()
	}
	return emptyResult{}, err
}

// takeWriteLock gives the write lock of a session to a client, unless another client holds it. A
// long lock starts at once, and so does a lock for an active turn of the client. Otherwise the lock
// is for the next turn of the client. announce is the lock to announce to the other clients, or
// nil.
func (d *Daemon) takeWriteLock(e *openSession, c *clientState, p protocol.WriteLockParams) (announce *writeLock, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkWriteAccessLocked(e, c); err != nil {
		return nil, err
	}
	has := d.currentLockLocked(e)
	turn := activeTurn(e)
	switch {
	case has != nil && has.isLong: // already announced
	case p.Long:
		long := &writeLock{entry: e, client: c, author: p.Author, isLong: true}
		d.grantLocked(long)
		return long, nil
	case turn != 0 && e.lastStarter == turnStarter{c, turn}:
		d.grantLocked(&writeLock{entry: e, client: c, author: p.Author, turn: turn})
	default:
		c.wantedLocks[e] = p.Author
	}
	return nil, nil
}

func (d *Daemon) handleReleaseWriteLock(_ context.Context, r *rpcserver.Request, p protocol.WriteLockParams) (emptyResult, error) {
	c := d.clientOf(r.Conn)
	d.mu.Lock()
	b := d.writeLocks[p.Session]
	delete(c.wantedLocks, d.openSessions[p.Session])
	released := b != nil && b.client == c && d.releaseLocked(b)
	d.mu.Unlock()
	if released {
		b.announceRelease()
	}
	return emptyResult{}, nil
}

// releaseLocked releases a write lock, and reports whether it was in force. The caller holds d.mu.
func (d *Daemon) releaseLocked(b *writeLock) (released bool) {
	released = d.writeLocks[b.entry.name] == b
	if released {
		delete(d.writeLocks, b.entry.name)
	}
	delete(b.client.writeLocks, b)
	return released
}

// announce tells the other clients who has the write lock.
func (l *writeLock) announce() { l.entry.session.Notify(l.author + " has the write lock") }

// announceRelease tells the other clients that the lock was released, if it was announced.
func (l *writeLock) announceRelease() {
	if l.isLong {
		l.entry.session.Notify(l.author + " has released the write lock")
	}
}

// emptyResult is the result of methods without a result, and the params of methods without params.
type emptyResult struct{}

// setAuthor notes the author name that a client gives.
func (d *Daemon) setAuthor(conn *rpcserver.Conn, author string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.connections[conn]; l != nil && author != "" {
		l.author = author
	}
}
