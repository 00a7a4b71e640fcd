package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
)

// A keyboardHold gives one client the sole right to write to a session. A hold for one
// turn keeps other clients from answering the turn's questions. Usually nobody holds the
// keyboard, and the turns of all clients run one after the other.
type keyboardHold struct {
	entry  *entry
	caller *caller
	author string
	long   bool   // announced to the other clients
	turn   uint64 // the turn that it is for, unless long
}

// begun names the client that began a session's last turn.
type begun struct {
	caller *caller
	turn   uint64
}

// mayWrite returns an error if another client holds the keyboard of a session.
func (d *Daemon) mayWrite(e *entry, c *caller) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mayWriteLocked(e, c)
}

func (d *Daemon) mayWriteLocked(e *entry, c *caller) error {
	b := d.keyboardLocked(e)
	if b == nil || b.caller == c {
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
func active(e *entry) uint64 { return e.session.ActiveTurn() }

// giveLocked gives a session's keyboard to a client. One that has just disconnected gets it
// when it connects again. The caller holds d.mu.
func (d *Daemon) giveLocked(b *keyboardHold) {
	if !b.caller.isHere() {
		if b.caller.id != "" {
			b.caller.lost = append(b.caller.lost, b)
		}
		return
	}
	if before := d.writers[b.entry.name]; before != nil {
		delete(before.caller.keyboards, before)
	}
	d.writers[b.entry.name] = b
	b.caller.keyboards[b] = true
}

// begin starts a turn for a client. If the client takes the keyboard for this turn, the
// hold is in force before any client can answer the turn's questions.
func (d *Daemon) begin(ctx context.Context, e *entry, c *caller, keyboard bool, author string, start func() (uint64, error)) (uint64, error) {
	select {
	case e.beginning <- struct{}{}:
		defer func() { <-e.beginning }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := d.mayWrite(e, c); err != nil {
		return 0, err
	}
	turn, err := start()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.begun = begun{c, turn}
	if before, wanted := c.wants[e]; wanted && !keyboard {
		keyboard, author = true, before
	}
	delete(c.wants, e)
	if keyboard && d.keyboardLocked(e) == nil {
		d.giveLocked(&keyboardHold{entry: e, caller: c, author: author, turn: turn})
	}
	return turn, nil
}

// mayAnswer returns an error if a client may not answer the active turn's questions.
func (d *Daemon) mayAnswer(ctx context.Context, e *entry, c *caller) error {
	select {
	case e.beginning <- struct{}{}: // a turn that begins may bring a keyboard hold
		defer func() { <-e.beginning }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.mayWrite(e, c)
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
	announced, err := d.take(e, d.caller(r.Conn), p)
	if announced {
		e.session.Notify(p.Author + " has the keyboard")
	}
	return nothing{}, err
}

// take gives a session's keyboard to a client, unless another one holds it. A long hold begins
// at once, and so does one for an active turn of the client. Otherwise the hold is for the
// client's next turn. take reports whether to tell the other clients.
func (d *Daemon) take(e *entry, c *caller, p client.WriterParams) (announce bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mayWriteLocked(e, c); err != nil {
		return false, err
	}
	has := d.keyboardLocked(e)
	turn := active(e)
	switch {
	case has != nil && has.long: // the other clients know it already
	case p.Long:
		d.giveLocked(&keyboardHold{entry: e, caller: c, author: p.Author, long: true})
		return true, nil
	case turn != 0 && e.begun == begun{c, turn}:
		d.giveLocked(&keyboardHold{entry: e, caller: c, author: p.Author, turn: turn})
	default:
		c.wants[e] = p.Author
	}
	return false, nil
}

func (d *Daemon) handleRelease(_ context.Context, r *rpc.Request, p client.WriterParams) (nothing, error) {
	c := d.caller(r.Conn)
	d.mu.Lock()
	b := d.writers[p.Session]
	delete(c.wants, d.entries[p.Session])
	held := b != nil && b.caller == c && d.releaseLocked(b)
	d.mu.Unlock()
	if held {
		b.announceEnd()
	}
	return nothing{}, nil
}

// releaseLocked gives the keyboard back, and reports whether it was held. The caller holds d.mu.
func (d *Daemon) releaseLocked(b *keyboardHold) (held bool) {
	held = d.writers[b.entry.name] == b
	if held {
		delete(d.writers, b.entry.name)
	}
	delete(b.caller.keyboards, b)
	return held
}

// announceEnd tells the other clients that the keyboard was given back, if they knew of it.
func (b *keyboardHold) announceEnd() {
	if b.long {
		b.entry.session.Notify(b.author + " has given the keyboard back")
	}
}
