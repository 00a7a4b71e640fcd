package daemon

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// progressBeat is the longest time between two frames for one token. With each frame the
	// client knows that the preparation goes on.
	progressBeat = 5 * time.Second

	// failedLimit is how long the daemon remembers why a preparation failed, if nobody asks.
	failedLimit = 10 * time.Minute
)

// progressToken returns the token for which the caller wants progress, or nil.
func progressToken(r *rpc.Request, p client.CreateParams) []byte {
	if len(p.Token) == 0 {
		return r.Token()
	}
	if jsonline.IsID(p.Token) {
		return p.Token
	}
	return nil
}

// newIndicator reserves a token of a client for a preparation. If two sessions shared a token, the
// client could not tell their frames apart.
func (d *Daemon) newIndicator(conn *rpc.Conn, token []byte) (*indicator, error) {
	c := d.caller(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.tokens[string(token)] {
		return nil, rpc.InvalidParams("progressToken %s: another session of this connection is being prepared with it", token)
	}
	c.tokens[string(token)] = true
	in := &indicator{caller: c, token: token, ended: make(chan struct{}), ctx: d.ctx}
	if c.id == "" {
		in.ctx = conn.Context()
	}
	in.over = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(c.tokens, string(token))
	}
	return in, nil
}

// An indicator sends a client the progress of a session's preparation, under one token. In its
// last frame the progress equals the total, and in no other frame.
type indicator struct {
	caller *caller
	ctx    context.Context // ends when no frame will reach the client
	token  []byte
	over   func()        // releases the token
	ended  chan struct{} // closed when the last frame is sent
}

// follow sends a frame for each event of the preparation. When there is no event for long, it
// repeats the last frame.
func (in *indicator) follow(s session.Session) {
	defer close(in.ended)
	ctx := in.ctx
	now := client.HostProgress{Token: in.token}
	var seen timeline.Seq
	for going := true; going && ctx.Err() == nil; {
		bounded, stop := context.WithTimeout(ctx, progressBeat)
		for e, err := range s.Events(bounded, seen) {
			if err != nil {
				going = bounded.Err() != nil // otherwise the session is closed
				break
			}
			seen = e.Seq
			if going = !isPrepared(e); !going {
				break
			}
			if p, ok := e.Body.(timeline.Preparation); ok {
				now.Progress, now.Total, now.Message = p.Done, p.Total, p.Message
				if p.Message == "" {
					now.Message = "preparing " + p.Text()
				}
				in.send(now)
			}
		}
		stop()
		if going && now.Message != "" {
			in.send(now)
		}
	}
	in.over() // before the last frame, because the client may use the token again then
	now.Progress = max(now.Progress, 1)
	now.Total, now.Message = now.Progress, ""
	in.send(now)
}

// isPrepared reports whether an event ends a preparation, with or without success. A client
// that uses the session learns the reason of a failure.
func isPrepared(e timeline.Event) bool {
	switch b := e.Body.(type) {
	case timeline.Preparation:
		return b.IsDone()
	case timeline.WorkerExited:
		return true
	}
	return false
}

// send never waits. A frame for a client that has gone is dropped.
func (in *indicator) send(p client.HostProgress) {
	if conn := in.caller.conn.Load(); conn != nil {
		_ = conn.Notify(client.MethodProgress, p)
	}
}

// prepared waits while a session is being prepared. If the preparation failed, the first
// client that learns this frees the name of the session.
func (d *Daemon) prepared(ctx context.Context, e *entry) error {
	return d.told(e, e.session.WaitPrepared(ctx))
}

// told returns the error that a client gets about a session, or nil. Before that, it waits for
// the session's indicator to end, so the client gets the last frame first.
func (d *Daemon) told(e *entry, err error) error {
	if e.indicator != nil && e.session.State() != session.StatePreparing {
		<-e.indicator.ended
	}
	failure := e.session.PreparationError()
	if err == nil || failure == nil {
		return err
	}
	_ = d.remove(context.Background(), e)
	return &rpc.Error{Code: rpc.CodeFailed, Kind: string(session.KindStart), Message: failure.Error(), Data: map[string]any{"with": e.with}}
}
