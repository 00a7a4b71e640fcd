package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
)

// A keyboardHold gives one connection the sole right to write to a session. A hold for one
// turn keeps other clients from answering the turn's questions. Usually nobody holds the
// keyboard, and the turns of all clients run one after the other.
type keyboardHold struct {
	entry  *entry
	conn   *rpc.Conn
	author string
	long   bool   // announced to the other clients
	turn   uint64 // the turn that it is for, unless long
}

// begun names the connection that began a session's last turn.
type begun struct {
	conn *rpc.Conn
	turn uint64
}

// mayWrite returns an error if another connection holds the keyboard of a session.
func (d *Daemon) mayWrite(e *entry, conn *rpc.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mayWriteLocked(e, conn)
}

func (d *Daemon) mayWriteLocked(e *entry, conn *rpc.Conn) error {
	b := d.keyboardLocked(e)
	if b == nil || b.conn == conn {
		return nil
	}
	return &rpc.Error{
		Code: rpc.CodeFailed, Kind: string(client.KindWriter),
		Message: b.author + " has the keyboard of this session: wait until it is given back, or have repl detach take it away",
		Data:    map[string]any{"writer": b.author},
	}
}

// keyboardLocked returns the hold on a session's keyboard, or nil. A hold for one turn ends
// with that turn. The caller holds d.mu.
func (d *Daemon) keyboardLocked(e *entry) *keyboardHold {
	b := d.writers[e.name]
	if b == nil || b.entry != e || !b.long && b.turn != active(e) {
		return nil
	}
	return b
}

// active returns the number of the turn that is active, or 0.
func active(e *entry) uint64 { return e.session.Active() }

// giveLocked gives a session's keyboard to a connection, unless the client has just
// disconnected. The caller holds d.mu.
func (d *Daemon) giveLocked(b *keyboardHold) {
	l := d.connections[b.conn]
	if l == nil {
		return
	}
	if before := d.writers[b.entry.name]; before != nil {
		if l := d.connections[before.conn]; l != nil {
			delete(l.keyboards, before)
		}
	}
	d.writers[b.entry.name] = b
	l.keyboards[b] = true
}

// begin starts a turn for a connection. If the client takes the keyboard for this turn, the
// hold is in force before any client can answer the turn's questions.
func (d *Daemon) begin(ctx context.Context, e *entry, conn *rpc.Conn, keyboard bool, author string, start func() (uint64, error)) (uint64, error) {
	select {
	case e.beginning <- struct{}{}:
		defer func() { <-e.beginning }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := d.mayWrite(e, conn); err != nil {
		return 0, err
	}
	turn, err := start()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.begun = begun{conn, turn}
	l := d.connections[conn]
	if l == nil {
		return turn, nil
	}
	if before, wanted := l.wants[e]; wanted && !keyboard {
		keyboard, author = true, before
	}
	delete(l.wants, e)
	if keyboard && d.keyboardLocked(e) == nil {
		d.giveLocked(&keyboardHold{entry: e, conn: conn, author: author, turn: turn})
	}
	return turn, nil
}

// mayAnswer returns an error if a connection may not answer the active turn's questions.
func (d *Daemon) mayAnswer(ctx context.Context, e *entry, conn *rpc.Conn) error {
	select {
	case e.beginning <- struct{}{}: // a turn that begins may bring a keyboard hold
		defer func() { <-e.beginning }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.mayWrite(e, conn)
}

func (d *Daemon) handleTake(_ context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	d.used()
	if p.Author == "" {
		return nothing{}, rpc.InvalidParams("author is required: others see who has the keyboard")
	}
	if err := checkAuthor(p.Author); err != nil {
		return nothing{}, err
	}
	e, err := d.inUse(p.Session)
	if err != nil {
		return nothing{}, err
	}
	d.named(r.Conn, p.Author)
	announced, err := d.take(e, r.Conn, p)
	if announced {
		e.session.Notify(p.Author + " has the keyboard")
	}
	return nothing{}, err
}

// take gives a session's keyboard to a connection, unless another client holds it. A long hold
// begins at once, and so does one for an active turn of the connection. Otherwise the hold is
// for the connection's next turn. take reports whether to tell the other clients.
func (d *Daemon) take(e *entry, conn *rpc.Conn, p client.WriterParams) (announce bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mayWriteLocked(e, conn); err != nil {
		return false, err
	}
	has := d.keyboardLocked(e)
	turn := active(e)
	switch {
	case has != nil && has.long: // the other clients know it already
	case p.Long:
		d.giveLocked(&keyboardHold{entry: e, conn: conn, author: p.Author, long: true})
		return true, nil
	case turn != 0 && e.begun == begun{conn, turn}:
		d.giveLocked(&keyboardHold{entry: e, conn: conn, author: p.Author, turn: turn})
	default:
		if l := d.connections[conn]; l != nil {
			l.wants[e] = p.Author
		}
	}
	return false, nil
}

func (d *Daemon) handleRelease(_ context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	d.mu.Lock()
	b := d.writers[p.Session]
	if l, e := d.connections[r.Conn], d.entries[p.Session]; l != nil {
		delete(l.wants, e)
	}
	d.mu.Unlock()
	if b != nil && b.conn == r.Conn {
		d.release(b)
	}
	return nothing{}, nil
}

// release gives the keyboard back.
func (d *Daemon) release(b *keyboardHold) {
	d.mu.Lock()
	held := d.writers[b.entry.name] == b
	if held {
		delete(d.writers, b.entry.name)
	}
	if l := d.connections[b.conn]; l != nil {
		delete(l.keyboards, b)
	}
	d.mu.Unlock()
	if held && b.long {
		b.entry.session.Notify(b.author + " has given the keyboard back")
	}
}
