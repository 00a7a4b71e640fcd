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
	long   bool // announced
}

// mayWrite says who else has the keyboard of a session.
func (d *Daemon) mayWrite(e *entry, conn *rpc.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.writers[e.name]
	if b == nil || b.entry != e || b.conn == conn {
		return nil
	}
	if b.long || e.session.Current() != nil { // what was taken for a turn ends with it
		return &rpc.Error{
			Code: rpc.CodeFailed, Kind: client.KindWriter,
			Message: b.author + " has the keyboard of this session: wait until it is given back",
			Data:    map[string]any{"writer": b.author},
		}
	}
	return nil
}

func (d *Daemon) handleTake(ctx context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	d.used()
	if p.Author == "" {
		return nothing{}, rpc.InvalidParams("author is required: others see who has the keyboard")
	}
	e, err := d.ready(p.Session)
	if err != nil {
		return nothing{}, err
	}
	if err := d.mayWrite(e, r.Conn); err != nil {
		return nothing{}, err
	}
	d.mu.Lock()
	before := d.writers[e.name]
	b := &baton{e, r.Conn, p.Author, p.Long}
	d.writers[e.name] = b
	d.lineLocked(r.Conn).batons[b] = true
	d.mu.Unlock()
	if p.Long && (before == nil || !before.long) {
		e.session.Notify(p.Author + " has the keyboard")
	}
	return nothing{}, nil
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
