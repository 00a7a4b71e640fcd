package daemon

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxProgressInterval is the longest time between two frames for one token. With each frame the
	// client knows that the preparation goes on.
	maxProgressInterval = 5 * time.Second

	// failureRetention is how long the daemon remembers why a preparation failed, if nobody asks.
	failureRetention = 10 * time.Minute
)

// progressToken returns the token for which the caller wants progress, or nil.
func progressToken(r *rpcserver.Request, p client.CreateParams) []byte {
	if len(p.Token) == 0 {
		return r.ProgressToken()
	}
	if jsonrpc2.IsID(p.Token) {
		return p.Token
	}
	return nil
}

// newProgressReporter reserves a token of a client for a preparation. If two sessions shared a token, the
// client could not tell their frames apart.
func (d *Daemon) newProgressReporter(conn *rpcserver.Conn, token []byte) (*progressReporter, error) {
	c := d.clientOf(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.tokens[string(token)] {
		return nil, rpcserver.InvalidParams("progressToken %s: another session of this connection is being prepared with it", token)
	}
	c.tokens[string(token)] = true
	in := &progressReporter{client: c, token: token, done: make(chan struct{}), ctx: d.ctx}
	if c.id == "" {
		in.ctx = conn.Context()
	}
	in.releaseToken = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(c.tokens, string(token))
	}
	return in, nil
}

// A progressReporter sends a client the progress of a session's preparation, under one token. In its
// last frame the progress equals the total, and in no other frame.
type progressReporter struct {
	client       *clientState
	ctx          context.Context // ends when no frame will reach the client
	token        []byte
	releaseToken func()        // releases the token
	done         chan struct{} // closed when the last frame is sent
}

// reportUntilPrepared sends a frame for each event of the preparation. When there is no event for long, it
// repeats the last frame.
func (in *progressReporter) reportUntilPrepared(s session.Session) {
	defer close(in.done)
	ctx := in.ctx
	now := client.PreparationProgress{Token: in.token}
	var seen timeline.Seq
	for going := true; going && ctx.Err() == nil; {
		bounded, stop := context.WithTimeout(ctx, maxProgressInterval)
		for e, err := range s.Events(bounded, seen) {
			if err != nil {
				going = bounded.Err() != nil // otherwise the session is closed
				break
			}
			seen = e.Seq
			if going = !isPreparationEnd(e); !going {
				break
			}
			if p, ok := e.Body.(timeline.Preparation); ok {
				now.Progress, now.Total, now.Message = p.Done, p.Total, p.Message
				if p.Message == "" {
					now.Message = "preparing " + p.Text()
				}
				in.sendFrame(now)
			}
		}
		stop()
		if going && now.Message != "" {
			in.sendFrame(now)
		}
	}
	in.releaseToken() // before the last frame, because the client may use the token again then
	now.Progress = max(now.Progress, 1)
	now.Total, now.Message = now.Progress, ""
	in.sendFrame(now)
}

// isPreparationEnd reports whether an event ends a preparation, with or without success. A client
// that uses the session learns the reason of a failure.
func isPreparationEnd(e timeline.Event) bool {
	switch b := e.Body.(type) {
	case timeline.Preparation:
		return b.IsDone()
	case timeline.WorkerExited:
		return true
	}
	return false
}

// sendFrame never waits. A frame for a client that has gone is dropped.
func (in *progressReporter) sendFrame(p client.PreparationProgress) {
	if conn := in.client.conn.Load(); conn != nil {
		_ = conn.Notify(client.MethodProgress, p)
	}
}

// awaitPrepared waits while a session is being prepared. If the preparation failed, the first
// client that learns this frees the name of the session.
func (d *Daemon) awaitPrepared(ctx context.Context, e *openSession) error {
	return d.sessionError(e, e.session.WaitPrepared(ctx))
}

// sessionError returns the error that a client gets about a session, or nil. Before that, it waits for
// the session's indicator to end, so the client gets the last frame first.
func (d *Daemon) sessionError(e *openSession, err error) error {
	if e.progress != nil && e.session.State() != session.StatePreparing {
		<-e.progress.done
	}
	failure := e.session.PreparationError()
	if err == nil || failure == nil {
		return err
	}
	_ = d.removeSession(context.Background(), e)
	return &rpcserver.Error{Code: rpcserver.CodeFailed, Kind: string(session.KindStart), Message: failure.Error(), Data: map[string]any{"packages": e.packages}}
}
