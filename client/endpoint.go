package client

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A caller makes calls and subscribes, over one connection or over the successive connections of a
// Client.
type caller interface {
	callMethod(ctx context.Context, method string, params, result any) error

	// subscribeReceiver subscribes for w, which has lost the connection in before; the zero
	// lostStream means none.
	subscribeReceiver(ctx context.Context, before lostStream, p protocol.SubscribeParams, w streamReceiver) (timeline.Seq, error)

	// canReconnect reports whether calls and subscriptions survive the end of a connection.
	canReconnect() bool

	// newRequestID returns an ID for a call and its repetitions; "" if none are made.
	newRequestID() string

	// watchTurn calls f with the turn of a request before the call ends, until stop is called.
	watchTurn(request string, f func(turn uint64)) (stop func())

	// functionHost returns the functions that this program gives to sessions.
	functionHost() *functionHost
}

// An endpoint is a caller that a Client can also close and observe.
type endpoint interface {
	caller
	Close() error
	Done() <-chan struct{}
	LogTo(l *slog.Logger)
	OnProgress(f func(protocol.PreparationProgress))

	// awaitConnection waits until there is a connection, and connects if possible.
	awaitConnection(ctx context.Context) error
}

// startTurn makes the call of turn/start.
func startTurn(ctx context.Context, c caller, p protocol.StartParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	p.TraceParent = cmp.Or(p.TraceParent, session.TraceParent(ctx))
	err = c.callMethod(ctx, protocol.MethodStart, p, &r)
	return r, err
}

// sendInput makes the call of turn/input.
func sendInput(ctx context.Context, c caller, p protocol.InputParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.callMethod(ctx, protocol.MethodInput, p, &r)
	return r, err
}

// typeKeys makes the call of turn/type.
func typeKeys(ctx context.Context, c caller, p protocol.TypeParams) (r protocol.TypeReply, err error) {
	if n := max(len(p.Text), len(p.Bytes)); n > session.MaxKeysBytes {
		return r, session.Errorf(session.KindTooLarge, "these are %d bytes of keys; the limit is %d", n, session.MaxKeysBytes)
	}
	err = c.callMethod(ctx, protocol.MethodType, p, &r)
	return r, err
}

// listSessions makes the call of session/list.
func listSessions(ctx context.Context, c caller) ([]session.Info, error) {
	var r struct {
		Sessions []session.Info `json:"sessions"`
	}
	err := c.callMethod(ctx, protocol.MethodList, struct{}{}, &r)
	return r.Sessions, err
}
