package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonline"
	"github.com/turnstone-repl/turnstone/session"
)

// KindMethod is the kind of the error of a daemon that does not know a method, because it is older.
const KindMethod session.Kind = "unknown_method"

// An instance is one run of a daemon.
type instance struct {
	pid     int
	started time.Time
}

func instanceOf(i Info) instance { return instance{i.PID, i.Started} }

func (i instance) is(o instance) bool { return i.pid == o.pid && i.started.Equal(o.started) }

// open connects once, and says who this client is.
func (l *Link) open(ctx context.Context) (*Client, error) {
	conn, err := l.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := connected(conn, l.far)
	c.onBegun = l.tellBegun
	l.mu.Lock()
	l.epoch++
	epoch := l.epoch
	l.mu.Unlock()
	hello, err := c.conn.Begin(MethodHello, HelloParams{ID: l.id, Epoch: epoch})
	switch g, ok := c.greeting(); {
	case err != nil:
	case ok && !l.isCareful():
		if err = speaks(g.Version, g.Protocol, l.dialer); err == nil {
			c.there = instance{g.PID, g.Started}
			go l.introduceLater(c, hello)
		}
	default:
		if c.there, err = c.introduce(ctx, l.dialer, hello); err == nil {
			close(c.introduced)
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// greeting is what the far side has said of the daemon, if it has said which one it is.
func (c *Client) greeting() (g Greeting, ok bool) {
	over, ok := c.conn.Stream().(interface{ Greeting() Greeting })
	if ok {
		g = over.Greeting()
	}
	return g, ok && g.PID != 0 && !g.Started.IsZero()
}

// introduceLater awaits the answer to a hello while calls behind it are on their way already: the
// daemon takes them in order. Where one was refused, the next attempt waits for its answer, and
// fails with it.
func (l *Link) introduceLater(c *Client, hello *jsonline.Pending) {
	defer close(c.introduced)
	there, err := c.introduce(context.Background(), l.dialer, hello)
	if err == nil && !there.is(c.there) {
		err = errors.New("another daemon has begun there in the same moment")
	}
	cut := session.KindOf(err) == KindUnreachable && errors.Unwrap(err) != nil // and nothing was refused
	l.mu.Lock()
	if err == nil {
		l.failed = 0
	} else if !cut {
		l.careful = true
	}
	l.mu.Unlock()
	if err != nil {
		c.conn.Drop(err)
	}
}

// isIntroduced reports whether the daemon has answered the hello.
func (c *Client) isIntroduced() bool {
	select {
	case <-c.introduced:
		return true
	default:
		return false
	}
}

func (l *Link) isCareful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.careful
}

// introduce awaits the answer to a hello, and makes sure that the other end is a daemon of this
// protocol.
func (c *Client) introduce(ctx context.Context, d Dialer, hello *jsonline.Pending) (i instance, err error) {
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	defer context.AfterFunc(ctx, func() { c.conn.Drop(context.Cause(ctx)) })() // one that is silent has no last word
	var h Hello
	raw, err := c.conn.Await(ctx, hello)
	if err = callError(err); err == nil {
		err = json.Unmarshal(raw, &h)
	}
	switch {
	case err == nil:
		c.known = h.Known
		return instanceOf(h.Info), speaks(h.Version, h.Protocol, d)
	case session.KindOf(err) == KindUnreachable && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return i, err
	default: // the time was up, perhaps: the connection may have been dropped for it already
		return i, notADaemon(ctx, d, err)
	}
}

// notADaemon is the error when what listens does not answer, or with something else.
func notADaemon(ctx context.Context, d Dialer, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return stuck(d)
	}
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("the program that listens at %s does not answer as a daemon does: %v", d, err)}
}

// isThere reports whether the connection has not ended, as far as one can know.
func (c *Client) isThere() bool { return c.conn.Context().Err() == nil }

// isSameAs returns an error if a connection leads to another run of the daemon than the one
// before, where a call with this method cannot go on.
func (c *Client) isSameAs(before *Client, method string) error {
	switch method {
	case MethodInfo, MethodPing, MethodList, MethodClients:
		return nil
	}
	if c.there.is(before.there) {
		return nil
	}
	return &session.Error{Kind: KindLost, Message: fmt.Sprintf(
		"the daemon was started anew at %s, and the sessions before are gone: %s was not repeated there, and nobody knows whether it was carried out before", c.there.started.Local().Format(time.TimeOnly), method)}
}

// hasForgotten returns an error if a call whose effect must come once cannot be repeated: too
// many other clients have come to the daemon since it was made. It waits for the answer to the
// hello, which has a bound.
func (c *Client) hasForgotten(method string) error {
	<-c.introduced
	if c.known {
		return nil
	}
	return &session.Error{Kind: KindLost, Message: "the daemon has forgotten this client while the link was down: " + method + " was not repeated, and nobody knows whether it was carried out before"}
}

// outage is that which the end of the connection begins.
func (c *Client) outage() Outage {
	why := c.conn.Why()
	o := Outage{From: time.Now(), Why: why}
	if _, silent := errors.AsType[*jsonline.SilentError](why); silent {
		o.From = c.conn.Heard()
	}
	return o
}

// tellBegun tells who has made a call which turn it has begun.
func (l *Link) tellBegun(b Begun) {
	l.mu.Lock()
	f := l.begun[b.Request]
	delete(l.begun, b.Request)
	l.mu.Unlock()
	if f != nil {
		f(b.Turn)
	}
}
