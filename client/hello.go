package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

// KindUnknownMethod is the kind of the error of an older daemon that does not know a method.
const KindUnknownMethod session.Kind = "unknown_method"

// A daemonInstance is one run of a daemon.
type daemonInstance struct {
	pid     int
	started time.Time
}

func instanceOf(i DaemonInfo) daemonInstance { return daemonInstance{i.PID, i.Started} }

func (i daemonInstance) equals(o daemonInstance) bool {
	return i.pid == o.pid && i.started.Equal(o.started)
}

// openConn connects once and sends the hello of this client.
func (cl *Client) openConn(ctx context.Context) (*Conn, error) {
	conn, err := cl.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := newConn(conn, cl.remote)
	c.onTurnAccepted = cl.reportTurnAccepted
	cl.mu.Lock()
	cl.epoch++
	epoch := cl.epoch
	cl.mu.Unlock()
	hello, err := c.conn.StartCall(MethodHello, HelloParams{ID: cl.id, Epoch: epoch})
	switch g, ok := c.dialGreeting(); {
	case err != nil:
	case ok && !cl.isHelloFirst():
		if err = checkProtocol(g.Version, g.Protocol, cl.dialer); err == nil {
			c.daemon = daemonInstance{g.PID, g.Started}
			go cl.awaitHelloLater(c, hello)
		}
	default:
		if c.daemon, err = c.awaitHello(ctx, cl.dialer, hello); err == nil {
			close(c.helloDone)
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// dialGreeting returns the greeting from the remote end, if it identifies a daemon.
func (c *Conn) dialGreeting() (g Greeting, ok bool) {
	over, ok := c.conn.Stream().(interface{ Greeting() Greeting })
	if ok {
		g = over.Greeting()
	}
	return g, ok && g.PID != 0 && !g.Started.IsZero()
}

// awaitHelloLater waits for the answer to a hello while calls after it have already been sent:
// the daemon handles them in order. If the hello is refused, the next attempt waits for its
// answer before other calls, and fails with its error.
func (cl *Client) awaitHelloLater(c *Conn, hello *jsonrpc2.PendingRequest) {
	defer close(c.helloDone)
	there, err := c.awaitHello(context.Background(), cl.dialer, hello)
	if err == nil && !there.equals(c.daemon) {
		err = errors.New("another daemon has just started there")
	}
	cut := session.KindOf(err) == KindUnreachable && errors.Unwrap(err) != nil // the connection was lost, nothing was refused
	cl.mu.Lock()
	if err == nil {
		cl.failures = 0
	} else if !cut {
		cl.helloFirst = true
	}
	cl.mu.Unlock()
	if err != nil {
		c.conn.Drop(err)
	}
}

// hasHelloAnswer reports whether the daemon has answered the hello.
func (c *Conn) hasHelloAnswer() bool {
	select {
	case <-c.helloDone:
		return true
	default:
		return false
	}
}

func (cl *Client) isHelloFirst() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.helloFirst
}

// awaitHello waits for the answer to a hello, and checks that the other end is a daemon of this
// protocol.
func (c *Conn) awaitHello(ctx context.Context, d Dialer, hello *jsonrpc2.PendingRequest) (i daemonInstance, err error) {
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	defer context.AfterFunc(ctx, func() { c.conn.Drop(context.Cause(ctx)) })() // a silent daemon sends no error
	var h HelloReply
	raw, err := c.conn.AwaitAnswer(ctx, hello)
	if err = callError(err); err == nil {
		err = json.Unmarshal(raw, &h)
	}
	switch {
	case err == nil:
		c.knownToDaemon = h.Known
		return instanceOf(h.DaemonInfo), checkProtocol(h.Version, h.Protocol, d)
	case session.KindOf(err) == KindUnreachable && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return i, err
	default: // possibly a timeout: the connection may already have been dropped because of it
		return i, notDaemonError(ctx, d, err)
	}
}

// notDaemonError returns the error for a program that listens but does not answer, or not like
// a daemon.
func notDaemonError(ctx context.Context, d Dialer, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return stuckError(d)
	}
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("the program that listens at %s does not answer like a daemon: %v", d, err)}
}

// isOpen reports whether the connection is not known to have ended.
func (c *Conn) isOpen() bool { return c.conn.Context().Err() == nil }

// checkSameDaemon returns an error if a connection leads to a different run of the daemon than
// the previous one, and a call with this method cannot continue there.
func (c *Conn) checkSameDaemon(before *Conn, method string) error {
	switch method {
	case MethodInfo, MethodPing, MethodList, MethodClients:
		return nil
	}
	if c.daemon.equals(before.daemon) {
		return nil
	}
	return &session.Error{Kind: KindOutcomeUnknown, Message: fmt.Sprintf(
		"the daemon was restarted at %s and its sessions are gone; %s was not retried and may already have run", c.daemon.started.Local().Format(time.TimeOnly), method)}
}

// checkRemembered returns an error if a call whose effect must happen only once cannot be
// repeated, because the daemon has had too many other clients since. It waits for the answer to
// the hello, which has a time limit.
func (c *Conn) checkRemembered(method string) error {
	<-c.helloDone
	if c.knownToDaemon {
		return nil
	}
	return &session.Error{Kind: KindOutcomeUnknown, Message: "the daemon forgot this client while the connection was down; " + method + " was not retried and may already have run"}
}

// newOutage returns the outage that begins with the end of the connection.
func (c *Conn) newOutage() Outage {
	why := c.conn.CloseCause()
	o := Outage{From: time.Now(), Cause: why}
	if _, silent := errors.AsType[*jsonrpc2.TimeoutError](why); silent {
		o.From = c.conn.LastActivity()
	}
	return o
}

// reportTurnAccepted reports to the caller of a request which turn it has started.
func (cl *Client) reportTurnAccepted(b TurnAccepted) {
	cl.mu.Lock()
	f := cl.turnCallbacks[b.Request]
	delete(cl.turnCallbacks, b.Request)
	cl.mu.Unlock()
	if f != nil {
		f(b.Turn)
	}
}
