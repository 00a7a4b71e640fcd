package conn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

// CheckDaemon checks that the other end is a daemon of this protocol. A greeting says so;
// otherwise the daemon is asked. d describes the daemon.
func (c *Conn) CheckDaemon(ctx context.Context, d fmt.Stringer) error {
	if g := c.options.Greeting; g != nil {
		return c.checkProtocol(g, d)
	}
	defer context.AfterFunc(ctx, func() { c.rpc.Drop(context.Cause(ctx)) })() // a silent daemon sends no error
	var g DaemonGreeting
	err := c.Call(ctx, c.options.Methods.Info, struct{}{}, &g)
	switch {
	case err == nil:
		return c.checkProtocol(&g, d)
	case session.KindOf(err) == session.KindUnreachable:
		return err
	default:
		return notDaemonError(ctx, d, err)
	}
}

// checkProtocol returns an error for a daemon with a different protocol.
func (c *Conn) checkProtocol(g *DaemonGreeting, d fmt.Stringer) error {
	if g.Protocol == c.options.Protocol {
		return nil
	}
	age, advice := "older", ""
	if g.Protocol > c.options.Protocol {
		age, advice = "newer", "upgrade this program, as repl upgrade does for repl, or "
	}
	return &session.Error{Kind: session.KindProtocol, Message: fmt.Sprintf(
		"the daemon at %s is %s than this program: version %s speaks protocol %d, and this program%s speaks %d; %send the daemon, its sessions and their variables with repl daemon drain",
		d, age, g.Version, g.Protocol, moduleVersion(), c.options.Protocol, advice)}
}

// moduleVersion returns the version of this module in the running program, as " (v1.2.3)", or "" if
// the go command has not recorded it.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath && m.Version != "" {
			return " (" + m.Version + ")"
		}
	}
	return ""
}

const modulePath = "github.com/turnstone-repl/turnstone"

// SayHello sends the hello with these params, as the first call. If a greeting has identified the
// daemon and first is not set, it does not wait for the answer: the daemon handles calls in order.
// onAnswer then gets the error of the hello, or nil, when the answer comes.
func (c *Conn) SayHello(ctx context.Context, d fmt.Stringer, params any, first bool, onAnswer func(error)) error {
	hello, err := c.rpc.StartCall(c.options.Methods.Hello, params)
	if err != nil {
		return err
	}
	if g := c.options.Greeting; g != nil && g.PID != 0 && !g.Started.IsZero() && !first {
		if err := c.checkProtocol(g, d); err != nil {
			return err
		}
		c.daemon = g.instance()
		go c.awaitHelloLater(d, hello, onAnswer)
		return nil
	}
	if c.daemon, err = c.awaitHello(ctx, d, hello); err == nil {
		close(c.helloDone)
	}
	return err
}

// awaitHelloLater waits for the answer to a hello while calls after it have already been sent.
func (c *Conn) awaitHelloLater(d fmt.Stringer, hello *jsonrpc2.PendingRequest, onAnswer func(error)) {
	defer close(c.helloDone)
	there, err := c.awaitHello(context.Background(), d, hello)
	if err == nil && !there.IsSame(c.daemon) {
		err = errors.New("another daemon has just started there")
	}
	onAnswer(err)
	if err != nil {
		c.rpc.Drop(err)
	}
}

// awaitHello waits for the answer to a hello, and checks that the other end is a daemon of this
// protocol.
func (c *Conn) awaitHello(ctx context.Context, d fmt.Stringer, hello *jsonrpc2.PendingRequest) (i DaemonInstance, err error) {
	ctx, stop := context.WithTimeout(ctx, DialTimeout)
	defer stop()
	defer context.AfterFunc(ctx, func() { c.rpc.Drop(context.Cause(ctx)) })() // a silent daemon sends no error
	var g DaemonGreeting
	a, err := c.rpc.AwaitAnswer(ctx, hello)
	if err = callError(err); err == nil {
		err = json.Unmarshal(a.Result, &g)
	}
	switch {
	case err == nil:
		c.knownToDaemon = g.Known
		return g.instance(), c.checkProtocol(&g, d)
	case session.KindOf(err) == session.KindUnreachable && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return i, err
	default: // possibly a timeout: the connection may already have been dropped because of it
		return i, notDaemonError(ctx, d, err)
	}
}

// HelloDone is closed when the hello is answered, or has failed after SayHello. HasHelloAnswer
// reports whether it is.
func (c *Conn) HelloDone() <-chan struct{} { return c.helloDone }

// HasHelloAnswer reports whether the daemon has answered the hello.
func (c *Conn) HasHelloAnswer() bool {
	select {
	case <-c.helloDone:
		return true
	default:
		return false
	}
}

// Daemon is the run of the daemon that the hello was sent to.
func (c *Conn) Daemon() DaemonInstance { return c.daemon }

// IsKnownToDaemon reports whether the daemon remembers earlier requests of this client. It waits
// for the answer to the hello, which has a time limit.
func (c *Conn) IsKnownToDaemon() bool {
	<-c.helloDone
	return c.knownToDaemon
}

// notDaemonError returns the error for a program that listens but does not answer, or not like
// a daemon.
func notDaemonError(ctx context.Context, d fmt.Stringer, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return NewStuckError(d)
	}
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("the program that listens at %s does not answer like a daemon: %v", d, err)}
}

// NewStuckError is the error for a program that listens but does not answer.
func NewStuckError(d fmt.Stringer) *session.Error {
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("%s did not answer within %s: the daemon there is stopped or stuck", d, DialTimeout)}
}
