package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
)

// A writeLock gives one client the sole right to write to a session. A hold for one
// turn keeps other clients from answering the turn's questions. Usually nobody holds the
// keyboard, and the turns of all clients run one after the other.
type writeLock struct {
	entry  *openSession
	client *clientState
	author string
	isLong bool   // announced to the other clients
	turn   uint64 // the turn that it is for, unless long
}

// turnStarter names the client that began a session's last turn.
type turnStarter struct {
	client *clientState
	turn   uint64
}

// checkWriteAccess returns an error if another client holds the keyboard of a session.
func (d *Daemon) checkWriteAccess(e *openSession, c *clientState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.checkWriteAccessLocked(e, c)
}

func (d *Daemon) checkWriteAccessLocked(e *openSession, c *clientState) error {
	b := d.currentLockLocked(e)
	if b == nil || b.client == c {
		return nil
	}
	return &rpcserver.Error{
		Code: rpcserver.CodeFailed, Kind: string(client.KindLocked),
		Message: b.author + " has the keyboard of this session: wait until it is given back, or have repl detach take it away",
		Data:    map[string]any{"write_lock_holder": b.author},
	}
}

// currentLockLocked returns the hold on a session's keyboard, or nil. A hold for one turn ends
// with that turn. The caller holds d.mu.
func (d *Daemon) currentLockLocked(e *openSession) *writeLock {
	b := d.writeLocks[e.name]
	if b == nil || b.entry != e || !b.isLong && b.turn != activeTurn(e) {
		return nil
	}
	return b
}

// activeTurn returns the number of the turn that is active, or 0.
func activeTurn(e *openSession) uint64 { return e.session.ActiveTurn() }

// grantLocked gives a session's keyboard to a client. One that has just disconnected gets it
// when it connects again. The caller holds d.mu.
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

// startWithLock starts a turn for a client. If the client takes the keyboard for this turn, the
// hold is in force before any client can answer the turn's questions.
func (d *Daemon) startWithLock(ctx context.Context, e *openSession, c *clientState, keyboard bool, author string, start func() (uint64, error)) (uint64, error) {
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
	if before, wanted := c.wantedLocks[e]; wanted && !keyboard {
		keyboard, author = true, before
	}
	delete(c.wantedLocks, e)
	if keyboard && d.currentLockLocked(e) == nil {
		d.grantLocked(&writeLock{entry: e, client: c, author: author, turn: turn})
	}
	return turn, nil
}

// checkAnswerAccess returns an error if a client may not answer the active turn's questions.
func (d *Daemon) checkAnswerAccess(ctx context.Context, e *openSession, c *clientState) error {
	select {
	case e.startLock <- struct{}{}: // a turn that begins may bring a keyboard hold
		defer func() { <-e.startLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.checkWriteAccess(e, c)
}

func (d *Daemon) handleTakeWriteLock(_ context.Context, r *rpcserver.Request, p client.WriteLockParams) (emptyResult, error) {
	d.noteUse()
	if p.Author == "" {
		return emptyResult{}, rpcserver.InvalidParams("author is required: others see who has the keyboard")
	}
	if err := checkAuthor(p.Author); err != nil {
		return emptyResult{}, err
	}
	e, err := d.useSession(p.Session)
	if err != nil {
		return emptyResult{}, err
	}
	d.setAuthor(r.Conn, p.Author)
	announced, err := d.takeWriteLock(e, d.clientOf(r.Conn), p)
	if announced {
		e.session.Notify(p.Author + " has the keyboard")
	}
	return emptyResult{}, err
}

// takeWriteLock gives a session's keyboard to a client, unless another one holds it. A long hold begins
// at once, and so does one for an active turn of the client. Otherwise the hold is for the
// client's next turn. take reports whether to tell the other clients.
func (d *Daemon) takeWriteLock(e *openSession, c *clientState, p client.WriteLockParams) (announce bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkWriteAccessLocked(e, c); err != nil {
		return false, err
	}
	has := d.currentLockLocked(e)
	turn := activeTurn(e)
	switch {
	case has != nil && has.isLong: // the other clients know it already
	case p.Long:
		d.grantLocked(&writeLock{entry: e, client: c, author: p.Author, isLong: true})
		return true, nil
	case turn != 0 && e.lastStarter == turnStarter{c, turn}:
		d.grantLocked(&writeLock{entry: e, client: c, author: p.Author, turn: turn})
	default:
		c.wantedLocks[e] = p.Author
	}
	return false, nil
}

func (d *Daemon) handleReleaseWriteLock(_ context.Context, r *rpcserver.Request, p client.WriteLockParams) (emptyResult, error) {
	c := d.clientOf(r.Conn)
	d.mu.Lock()
	b := d.writeLocks[p.Session]
	delete(c.wantedLocks, d.openSessions[p.Session])
	held := b != nil && b.client == c && d.releaseLocked(b)
	d.mu.Unlock()
	if held {
		b.announceRelease()
	}
	return emptyResult{}, nil
}

// releaseLocked gives the keyboard back, and reports whether it was held. The caller holds d.mu.
func (d *Daemon) releaseLocked(b *writeLock) (held bool) {
	held = d.writeLocks[b.entry.name] == b
	if held {
		delete(d.writeLocks, b.entry.name)
	}
	delete(b.client.writeLocks, b)
	return held
}

// announceRelease tells the other clients that the keyboard was given back, if they knew of it.
func (b *writeLock) announceRelease() {
	if b.isLong {
		b.entry.session.Notify(b.author + " has given the keyboard back")
	}
}
