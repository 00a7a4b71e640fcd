package client

import (
	"context"
	"fmt"
	"net"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A singleConn is one connection, whose calls and subscriptions end with it.
type singleConn struct {
	*conn.Conn
	callbacks
}

func newSingleConn(stream net.Conn) *singleConn {
	c := &singleConn{}
	c.Conn = conn.New(stream, connectionOptions(stream, false, &c.callbacks))
	return c
}

// awaitConnection returns why the connection has ended, if it has.
func (c *singleConn) awaitConnection(context.Context) error {
	if c.IsOpen() {
		return nil
	}
	_, cause := c.Loss()
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("the connection to the daemon ended: %v", cause), Cause: cause}
}

func (c *singleConn) callMethod(ctx context.Context, method string, params, result any) error {
	return c.Call(ctx, method, params, result)
}

func (c *singleConn) subscribeReceiver(ctx context.Context, before lostStream, p protocol.SubscribeParams, w streamReceiver) (timeline.Seq, error) {
	if before.err != nil {
		return 0, before.err
	}
	return subscribeOver(ctx, c.Conn, p, w)
}

func (c *singleConn) canReconnect() bool { return false }

func (c *singleConn) newRequestID() string { return "" }

// connectionMethods are the methods that a connection itself uses.
var connectionMethods = conn.Methods{
	Info: protocol.MethodInfo, Ping: protocol.MethodPing, Hello: protocol.MethodHello,
	Notifications: []string{protocol.MethodSnapshot, protocol.MethodEvent, protocol.MethodChange, protocol.MethodEnded},
}

// connectionOptions returns the options of a connection. A remote one is probed while it is
// needed.
func connectionOptions(stream net.Conn, isRemote bool, c *callbacks) conn.Options {
	o := conn.Options{Protocol: protocol.Version, Methods: connectionMethods, Remote: isRemote, OnNotification: c.handleNotification, OnRequest: c.host.handleRequest}
	if over, ok := stream.(interface{ Greeting() remote.Greeting }); ok {
		g := over.Greeting()
		o.Greeting = &conn.DaemonGreeting{Version: g.Version, Protocol: g.Protocol, PID: g.PID, Started: g.Started}
	}
	if over, ok := stream.(*remote.CommandConn); ok {
		o.CanSkip, o.AfterClose, o.Heartbeat = over.CanSkip, over.Terminate, over.PingInterval()
	}
	return o
}
