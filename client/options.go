package client

import (
	"net"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// connectionMethods are the methods that a connection itself uses.
var connectionMethods = conn.Methods{
	Info: MethodInfo, Ping: MethodPing, Hello: MethodHello,
	Notifications: []string{MethodSnapshot, MethodEvent, MethodChange, MethodEnded},
}

// connectionOptions returns the options of a connection. A remote one is probed while it is
// needed.
func connectionOptions(stream net.Conn, isRemote bool, handle func(*jsonrpc2.Message)) conn.Options {
	o := conn.Options{Protocol: Protocol, Methods: connectionMethods, Remote: isRemote, OnNotification: handle}
	if over, ok := stream.(interface{ Greeting() remote.Greeting }); ok {
		g := over.Greeting()
		o.Greeting = &conn.DaemonGreeting{Version: g.Version, Protocol: g.Protocol, PID: g.PID, Started: g.Started}
	}
	if over, ok := stream.(*remote.CommandConn); ok {
		o.CanSkip, o.AfterClose, o.Heartbeat = over.CanSkip, over.Terminate, over.PingInterval()
	}
	return o
}
