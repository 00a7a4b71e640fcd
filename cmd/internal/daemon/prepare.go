package daemon

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxProgressInterval is the longest time between two frames for one token. Each frame shows
	// the client that the preparation continues.
	maxProgressInterval = 5 * time.Second

	// failureRetention is how long the daemon remembers a failed preparation that no client asks
	// about.
	failureRetention = 10 * time.Minute
)

// progressToken returns the token for which the caller wants progress, or nil.
func progressToken(r *rpcserver.Request, p protocol.CreateParams) []byte {
	if len(p.Token) == 0 {
		return r.ProgressToken()
	}
	if jsonrpc2.IsID(p.Token) {
		return p.Token
	}
	return nil
}

// newProgressReporter reserves a progress token of a client for a preparation. If two sessions
// shared a token, the client could not tell their frames apart.
func (d *Daemon) newProgressReporter(conn *rpcserver.Conn, token []byte) (*progressReporter, error) {
	c := d.clientOf(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.tokens[string(token)] {
		return nil, rpcserver.InvalidParams("progressToken %s: another session of this connection is being prepared with it", token)
	}
	c.tokens[string(token)] = true
	p := &progressReporter{client: c, token: token, done: make(chan struct{}), ctx: d.ctx}
	if c.id == "" {
		p.ctx = conn.Context()
	}
	p.releaseToken = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(c.tokens, string(token))
	}
	return p, nil
}

// A progressReporter sends a client the progress of the preparation of a session, under one token.
// The progress equals the total only in the last frame.
type progressReporter struct {
	client       *clientState
	ctx          context.Context // ends when no frame can reach the client any more
	token        []byte
	releaseToken func()        // makes the token free for another session
	done         chan struct{} // closed when the last frame is sent
}

// reportUntilPrepared sends a frame for each event of the preparation. Without an event for
// maxProgressInterval, it repeats the last frame.
func (r *progressReporter) reportUntilPrepared(s session.Session) {
	defer close(r.done)
	ctx := r.ctx
	frame := protocol.PreparationProgress{Token: r.token}
	var last timeline.Seq
	for preparing := true; preparing && ctx.Err() == nil; {
		bounded, stop := context.WithTimeout(ctx, maxProgressInterval)
		for e, err := range s.Events(bounded, last) {
			if err != nil {
				preparing = bounded.Err() != nil // otherwise the session is closed
				break
			}
			last = e.Seq
			if preparing = !isPreparationEnd(e); !preparing {
				break
			}
			if p, ok := e.Body.(timeline.Preparation); ok {
				frame.Progress, frame.Total, frame.Message = p.Done, p.Total, p.Message
				if p.Message == "" {
					frame.Message = "preparing " + p.Text()
				}
				r.sendFrame(frame)
			}
		}
		stop()
		if preparing && frame.Message != "" {
			r.sendFrame(frame)
		}
	}
	r.releaseToken() // before the last frame, after which the client may use the token again
	frame.Progress = max(frame.Progress, 1)
	frame.Total, frame.Message = frame.Progress, ""
	r.sendFrame(frame)
}

// isPreparationEnd reports whether an event ends a preparation, with or without success. A client
// that uses the session gets the reason of a failure.
func isPreparationEnd(e timeline.Event) bool {
	switch b := e.Body.(type) {
	case timeline.Preparation:
		return b.IsDone()
	case timeline.WorkerExited:
		return true
	}
	return false
}

// sendFrame sends a frame without waiting. A frame for a disconnected client is dropped.
func (r *progressReporter) sendFrame(p protocol.PreparationProgress) {
	if conn := r.client.conn.Load(); conn != nil {
		_ = conn.Notify(protocol.MethodProgress, p)
	}
}
