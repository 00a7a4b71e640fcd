package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newRequestID returns an ID for a call and its repetitions.
func (rc *reconnectingConn) newRequestID() string {
	return strconv.FormatUint(rc.lastRequest.Add(1), 36)
}

// callMethod makes a call, and repeats it if its connection is lost before the answer: until
// its context ends, or the time for which it waits is over. Its effect happens only once.
func (rc *reconnectingConn) callMethod(ctx context.Context, method string, params, result any) error {
	t := &retryState{conn: rc, params: params, startTime: time.Now(), method: method}
	if r, ok := params.(protocol.RetryableParams); ok {
		t.params = r.WithRequestID(rc.newRequestID())
	}
	err := t.runWithRetry(ctx, func(c *conn.Conn) error { return t.callOnce(ctx, c, result) })
	if errors.Is(err, context.DeadlineExceeded) && session.KindOf(err) == "" {
		err = fmt.Errorf("the daemon does not respond: %w", err)
	}
	return err
}

// subscribeReceiver subscribes on the current connection or, after a loss, on a new one.
func (rc *reconnectingConn) subscribeReceiver(ctx context.Context, before lostStream, p protocol.SubscribeParams, w streamReceiver) (seq timeline.Seq, err error) {
	if before.err != nil {
		before.at.release()
		if err := before.losses.RecordLoss(ctx, protocol.MethodSubscribe, before.err); err != nil {
			return 0, err
		}
	}
	t := &retryState{conn: rc, method: protocol.MethodSubscribe, params: p, startTime: time.Now(), lastConn: before.at.conn, lossErr: before.err}
	err = t.runWithRetry(ctx, func(c *conn.Conn) error {
		seq, err = subscribeOver(ctx, c, p, w)
		return err
	})
	return seq, err
}

// runWithRetry calls do with a connection, and again with the next one while a retry makes
// sense.
func (s *retryState) runWithRetry(ctx context.Context, do func(*conn.Conn) error) error {
	for {
		c, err := s.acquireConn(ctx)
		if err != nil && s.lossErr != nil && !s.conn.remote && session.KindOf(err) == session.KindUnreachable {
			return s.lossErr // for a local daemon, the first error is more specific than that the daemon is gone now
		}
		if err != nil {
			return err
		}
		if err = do(c); hasEnded(err) {
			c.AwaitEnd(ctx) // a later call must not use this connection
		}
		s.lastConn, s.lossErr = c, err
		if !s.canRetry(ctx, c, err) {
			return err
		}
		if err := s.losses.RecordLoss(ctx, s.method, err); err != nil {
			return err
		}
		if p, ok := s.params.(protocol.StartParams); ok && p.Queue {
			s.startTime = time.Now() // the wait in the queue was no outage
		}
	}
}

// A retryState is the state of a call and its repetitions.
type retryState struct {
	conn      *reconnectingConn
	method    string
	params    any
	startTime time.Time
	lastConn  *conn.Conn // the connection on which it was last sent
	lossErr   error      // why it got no answer there
	losses    backoff.LossCounter
}

// timeLeft returns how long the call may still wait, and whether it has a time limit.
func (s *retryState) timeLeft() (left time.Duration, bounded bool) {
	if p, ok := s.params.(protocol.WaitingParams); ok && p.WaitTime() > 0 {
		return p.WaitTime() - time.Since(s.startTime), true
	}
	patience := time.Duration(s.conn.reconnectTimeout.Load())
	return patience - time.Since(s.startTime), patience > 0
}

// acquireConn returns a connection on which the call can be made.
func (s *retryState) acquireConn(ctx context.Context) (*conn.Conn, error) {
	if left, bounded := s.timeLeft(); bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, max(left, 0))
		defer stop()
	}
	c, err := s.conn.acquireConn(ctx, s.lastConn == nil)
	if err != nil || s.lastConn == nil {
		return c, err
	}
	err = checkSameDaemon(c, s.lastConn, s.method)
	if _, once := s.params.(protocol.RetryableParams); once && err == nil {
		err = checkRemembered(c, s.method)
	}
	return c, err
}

// callOnce makes the call once.
func (s *retryState) callOnce(ctx context.Context, c *conn.Conn, result any) error {
	params := s.params
	if p, ok := params.(protocol.WaitingParams); ok && p.WaitTime() > 0 {
		left, _ := s.timeLeft()
		if s.lastConn != nil {
			params = p.WithWaitTime(max(left, time.Millisecond))
		}
		if s.conn.remote {
			var stop context.CancelFunc
			ctx, stop = c.WithLateDeadline(ctx, max(left, 0), continuesAfterCancel(params))
			defer stop()
		}
	}
	err := c.Call(ctx, s.method, params, result)
	if err != nil && errors.Is(context.Cause(ctx), conn.ErrLateAnswer) {
		return &session.Error{Kind: session.KindUnreachable, Cause: context.DeadlineExceeded,
			Message: fmt.Sprintf("%s has not responded since %s", displayName(s.conn.dialer), c.LastActivity().Format(time.TimeOnly))}
	}
	return err
}

// continuesAfterCancel reports whether the turn of a call goes on if the call is cancelled.
func continuesAfterCancel(params any) bool {
	switch p := params.(type) {
	case protocol.StartParams:
		return p.Continues
	case protocol.InputParams:
		return p.Continues
	}
	return false
}

// checkSameDaemon returns an error if a connection leads to a different run of the daemon than
// the previous one, and a call with this method cannot continue there.
func checkSameDaemon(c, before *conn.Conn, method string) error {
	switch method {
	case protocol.MethodInfo, protocol.MethodPing, protocol.MethodMetrics, protocol.MethodList, protocol.MethodClients:
		return nil
	}
	if c.Daemon().IsSame(before.Daemon()) {
		return nil
	}
	return &session.Error{Kind: session.KindOutcomeUnknown, Message: fmt.Sprintf(
		"the daemon was restarted at %s and its sessions are gone; %s was not retried and may already have run", c.Daemon().Started.Local().Format(time.TimeOnly), method)}
}

// checkRemembered returns an error if a call whose effect must happen only once cannot be
// repeated, because the daemon has had too many other clients since.
func checkRemembered(c *conn.Conn, method string) error {
	if c.IsKnownToDaemon() {
		return nil
	}
	return &session.Error{Kind: session.KindOutcomeUnknown, Message: "the daemon forgot this client while the connection was down; " + method + " was not retried and may already have run"}
}

// hasEnded reports whether an error says that the daemon of a connection has ended.
func hasEnded(err error) bool {
	kind := session.KindOf(err)
	return (kind == session.KindUnreachable || kind == session.KindShuttingDown) && !errors.Is(err, context.DeadlineExceeded)
}

// canRetry reports whether a call may be made again.
func (s *retryState) canRetry(ctx context.Context, c *conn.Conn, err error) bool {
	if err != nil {
		select {
		case <-c.HelloDone(): // the preceding hello may have been refused for the same reason
		case <-ctx.Done():
		}
	}
	switch kind := session.KindOf(err); {
	case err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return false
	case kind != session.KindUnreachable:
		return false
	}
	return !c.IsOpen()
}
