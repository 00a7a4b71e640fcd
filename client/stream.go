package client

import (
	"context"
	"encoding/json"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A streamReceiver receives the notifications of a subscription. Its methods must not block.
type streamReceiver interface {
	enqueue(m *jsonrpc2.Message)
	closeWithError(err error)

	// setPosition gets the new position before any notification, and reports whether the
	// subscription is still open.
	setPosition(to streamPosition) (wanted bool)
}

// A streamPosition is the current connection of a subscription and its ID there.
type streamPosition struct {
	conn    *conn.Conn
	id      string
	release func() // stops probing the connection
}

// A lostStream describes how a subscription lost its connection. It is zero if there was none.
type lostStream struct {
	at     streamPosition
	err    error
	losses *backoff.LossCounter
}

// subscribeOver subscribes for w over one connection.
func subscribeOver(ctx context.Context, c *conn.Conn, p protocol.SubscribeParams, w streamReceiver) (timeline.Seq, error) {
	var r protocol.SubscribeReply
	if err := c.Call(ctx, protocol.MethodSubscribe, p, &r); err != nil {
		return r.Seq, err
	}
	to := streamPosition{conn: c, id: r.Subscription, release: c.AddKeepAlive()}
	wanted := w.setPosition(to)
	c.AddReceiver(r.Subscription, conn.Receiver{Enqueue: w.enqueue, End: w.closeWithError})
	if !wanted {
		return r.Seq, to.unsubscribe(ctx, w)
	}
	return r.Seq, nil
}

// unsubscribe ends a subscription in the daemon.
func (p streamPosition) unsubscribe(ctx context.Context, w streamReceiver) error {
	w.closeWithError(session.ErrClosed)
	err := p.conn.Call(ctx, protocol.MethodUnsubscribe, protocol.SubscriptionParams{Subscription: p.id}, nil)
	p.conn.RemoveReceiver(p.id)
	p.release()
	return err
}

// isDisconnect reports whether a subscription has ended because its connection has ended.
func isDisconnect(err error) bool { return session.KindOf(err) == session.KindUnreachable }

// endReason returns why a subscription has ended.
func endReason(m *jsonrpc2.Message) error {
	var e protocol.SubscriptionEnd
	if json.Unmarshal(m.Params, &e) == nil && e.Detached {
		return &session.Error{Kind: session.KindDetached, Message: e.Reason}
	}
	return session.ErrClosed
}
