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
	// progressBeat is the most time between two frames for one token: whoever shows
	// something knows that it is still true.
	progressBeat = 5 * time.Second

	// failedLimit is how long is remembered why a session could not be prepared, if
	// nobody asks.
	failedLimit = 10 * time.Minute
)

// progressToken returns what the caller wants progress for; nil when it wants none.
func progressToken(r *rpc.Request, p client.CreateParams) []byte {
	if len(p.Token) == 0 {
		return r.Token()
	}
	if jsonline.IsID(p.Token) {
		return p.Token
	}
	return nil
}

// claimToken takes a token of a connection until over is called: frames of two sessions
// for one could not be told apart.
func (d *Daemon) claimToken(conn *rpc.Conn, token []byte) (over func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.connections[conn]
	if l == nil { // it has hung up
		return func() {}, nil
	}
	if l.tokens[string(token)] {
		return nil, rpc.InvalidParams("progressToken %s: another session of this connection is being prepared with it", token)
	}
	l.tokens[string(token)] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(l.tokens, string(token))
	}, nil
}

// An indicator is a token for which a client waits to be told how far the preparation
// of a session is. The last frame's total is its progress, and that of no other is.
type indicator struct {
	conn  *rpc.Conn
	token []byte
	over  func()        // gives the token back
	ended chan struct{} // closed when the last frame is sent
}

// follow sends a frame for each event of the preparation, and the last one again when
// there is none for long.
func (in *indicator) follow(s session.Session) {
	defer close(in.ended)
	ctx := in.conn.Context()
	now := client.HostProgress{Token: in.token}
	var seen timeline.Seq
	for going := true; going && ctx.Err() == nil; {
		bounded, stop := context.WithTimeout(ctx, progressBeat)
		for e, err := range s.Events(bounded, seen) {
			if err != nil {
				going = bounded.Err() != nil // else the session is closed
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
	in.over() // before it is told: the token may be used again then
	now.Progress = max(now.Progress, 1)
	now.Total, now.Message = now.Progress, ""
	in.send(now)
}

// isPrepared reports whether an event is the end of a preparation, however it ended.
// Why is not for the indicator: whoever uses the session is told.
func isPrepared(e timeline.Event) bool {
	switch b := e.Body.(type) {
	case timeline.Preparation:
		return b.Over()
	case timeline.GenerationEnded:
		return true
	}
	return false
}

// send never waits. A client that is gone is told nothing.
func (in *indicator) send(p client.HostProgress) {
	_ = in.conn.Notify(client.MethodProgress, p)
}

// prepared waits while a session is being prepared. One that could not be is over for
// whoever is told so: the name is free then.
func (d *Daemon) prepared(ctx context.Context, e *entry) error {
	return d.told(e, e.session.Prepared(ctx))
}

// told returns an error of a session's, and nil when there is none. An indicator ends before
// anybody is told of the end of its preparation otherwise.
func (d *Daemon) told(e *entry, err error) error {
	if e.indicator != nil && e.session.State() != session.StatePreparing {
		<-e.indicator.ended
	}
	failure := e.session.Failure()
	if err == nil || failure == nil {
		return err
	}
	_ = d.remove(context.Background(), e)
	return &rpc.Error{Code: rpc.CodeFailed, Kind: string(session.KindStart), Message: failure.Error(), Data: map[string]any{"with": e.with}}
}
