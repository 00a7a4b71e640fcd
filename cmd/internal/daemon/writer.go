package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
)

// A baton is a session's keyboard in somebody's hands: nobody else may write then.
// One that is taken for a turn keeps others from answering for it. Most of the time
// nobody has it, and turns come one after the other anyway.
type baton struct {
	entry  *entry
	conn   *rpc.Conn
	author string
	long   bool   // announced
	turn   uint64 // guarded by Daemon.mu: what it is for, if not long; 0 until that has begun
}

// mayWrite says who else has the keyboard of a session.
func (d *Daemon) mayWrite(e *entry, conn *rpc.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mayWriteLocked(e, conn)
}

func (d *Daemon) mayWriteLocked(e *entry, conn *rpc.Conn) error {
	b := d.writers[e.name]
	if b == nil || b.entry != e || b.conn == conn {
		return nil
	}
	if b.long || b.turn != 0 && b.turn == active(e) { // what was taken for a turn ends with it
		return &rpc.Error{
			Code: rpc.CodeFailed, Kind: client.KindWriter,
			Message: b.author + " has the keyboard of this session: wait until it is given back",
			Data:    map[string]any{"writer": b.author},
		}
	}
	return nil
}

// active is the number of the turn that is active, or 0.
func active(e *entry) uint64 {
	if turn := e.session.Current(); turn != nil {
		return turn.ID()
	}
	return 0
}

// wrote notes which turn a keyboard was taken for, if it was for one.
func (d *Daemon) wrote(e *entry, conn *rpc.Conn, turn uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.writers[e.name]; b != nil && b.entry == e && b.conn == conn {
		b.turn = turn
	}
}

func (d *Daemon) handleTake(_ context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	d.used()
	if p.Author == "" {
		return nothing{}, rpc.InvalidParams("author is required: others see who has the keyboard")
	}
	if err := checkAuthor(p.Author); err != nil {
		return nothing{}, err
	}
	e, err := d.ready(p.Session)
	if err != nil {
		return nothing{}, err
	}
	announced, err := d.take(e, r.Conn, p)
	if announced {
		e.session.Notify(p.Author + " has the keyboard")
	}
	return nothing{}, err
}

// take gives a session's keyboard to a connection, unless somebody else has it. It
// reports whether others are to be told.
func (d *Daemon) take(e *entry, conn *rpc.Conn, p client.WriterParams) (announce bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mayWriteLocked(e, conn); err != nil {
		return false, err
	}
	b := &baton{entry: e, conn: conn, author: p.Author, long: p.Long, turn: active(e)}
	had := false
	if before := d.writers[e.name]; before != nil {
		if l := d.lines[before.conn]; l != nil {
			delete(l.batons, before)
		}
		had = before.entry == e && before.conn == conn && before.long
		b.long = b.long || had // it is still announced
	}
	d.writers[e.name] = b
	d.lineLocked(conn).batons[b] = true
	return b.long && !had, nil
}

func (d *Daemon) handleRelease(_ context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	d.mu.Lock()
	b := d.writers[p.Session]
	d.mu.Unlock()
	if b != nil && b.conn == r.Conn {
		d.release(b)
	}
	return nothing{}, nil
}

// release gives the keyboard back.
func (d *Daemon) release(b *baton) {
	d.mu.Lock()
	held := d.writers[b.entry.name] == b
	if held {
		delete(d.writers, b.entry.name)
	}
	if l := d.lines[b.conn]; l != nil {
		delete(l.batons, b)
	}
	d.mu.Unlock()
	if held && b.long {
		b.entry.session.Notify(b.author + " has given the keyboard back")
	}
}
