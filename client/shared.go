package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A sharedConn lets a Conn use the changing connections of a Client.
type sharedConn struct{ *Client }

// Close closes the Client.
func (c sharedConn) Close() error {
	c.Client.Close()
	return nil
}

// Done is closed when the Client is closed.
func (c sharedConn) Done() <-chan struct{} { return c.done }

// LogTo does nothing: the Client has its own log.
func (c sharedConn) LogTo(*slog.Logger) {}

func (cl *Client) canReconnect() bool { return true }

func (cl *Client) watchTurn(request string, f func(turn uint64)) (stop func()) {
	return cl.callbacks.watchTurn(request, f)
}

// subscribeReceiver subscribes on the current connection or, after a loss, on a new one.
func (cl *Client) subscribeReceiver(ctx context.Context, before lostStream, p SubscribeParams, w streamReceiver) (seq timeline.Seq, err error) {
	if before.err != nil {
		before.at.release()
		if err := before.losses.recordLoss(ctx, MethodSubscribe, before.err); err != nil {
			return 0, err
		}
	}
	t := &retryState{client: cl, method: MethodSubscribe, params: p, startTime: time.Now(), lastConn: before.at.conn, lossErr: before.err}
	err = t.runWithRetry(ctx, func(c *conn.Conn) error {
		seq, err = subscribeOver(ctx, c, p, w)
		return err
	})
	return seq, err
}

// newConnection returns a connection whose notifications the Client handles.
func (cl *Client) newConnection(stream net.Conn) *conn.Conn {
	return conn.New(stream, connectionOptions(stream, cl.remote, cl.callbacks.handleNotification))
}

// openConn connects once and sends the hello of this client. If a hello that was not waited for
// is refused, the next attempt waits for its answer before other calls, and fails with its
// error.
func (cl *Client) openConn(ctx context.Context) (*conn.Conn, error) {
	stream, err := cl.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := cl.newConnection(stream)
	cl.mu.Lock()
	cl.epoch++
	epoch, first := cl.epoch, cl.helloFirst
	cl.mu.Unlock()
	if err := c.SayHello(ctx, cl.dialer, HelloParams{ID: cl.id, Epoch: epoch}, first, cl.noteHello); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// noteHello notes the result of a hello that was not waited for.
func (cl *Client) noteHello(err error) {
	cut := session.KindOf(err) == session.KindUnreachable && errors.Unwrap(err) != nil // the connection was lost, nothing was refused
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if err == nil {
		cl.failures = 0
	} else if !cut {
		cl.helloFirst = true
	}
}
