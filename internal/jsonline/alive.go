package jsonline

import (
	"fmt"
	"sync"
	"time"
)

// hearing reads from the stream and notes when bytes come.
type hearing struct{ c *Conn }

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.c.stream.Read(b)
	if n > 0 {
		h.c.hear()
	}
	return n, err
}

func (c *Conn) hear() { c.heard.Store(int64(time.Since(c.born))) }

// Heard returns when bytes last came, or moved in a long line of ours.
func (c *Conn) Heard() time.Time { return c.born.Add(time.Duration(c.heard.Load())) }

// Why returns why the connection has ended; nil while it has not.
func (c *Conn) Why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		return nil
	}
	return c.over.Why
}

// A SilentError drops a connection on which nothing comes any more.
type SilentError struct{ For time.Duration }

func (e *SilentError) Error() string { return fmt.Sprintf("nothing has come from it for %s", e.For) }

// Hold has KeepAlive look after the connection, also while no call waits, until release.
func (c *Conn) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
	c.wantLocked()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held--
		c.wantLocked()
	})
}

// wantLocked notes whether something wants the connection. The caller holds c.mu.
func (c *Conn) wantLocked() {
	switch wanted := c.held+len(c.calls) > 0; {
	case c.o.KeepAlive == "" || c.broken != nil:
	case !wanted:
		c.wanted = time.Time{} // the timer finds that, and rests
	case c.wanted.IsZero():
		c.wanted = time.Now()
		if c.alive == nil {
			c.alive = time.AfterFunc(c.o.KeepAliveTime, c.look)
		} else {
			c.alive.Reset(c.o.KeepAliveTime)
		}
	}
}

// look asks the other side whether it is there when it has been silent for long, and drops the
// connection when it stays silent.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted.IsZero() || c.broken != nil {
		return
	}
	since := c.Heard()
	if c.wanted.After(since) { // before that, nobody expected anything
		since = c.wanted
	}
	silent, next := time.Since(since), c.o.KeepAliveTime
	switch {
	case silent < c.o.KeepAliveTime:
		next -= silent
	case !c.asked.After(since):
		c.asked = time.Now()
		if line, err := requestLine(`"alive"`, c.o.KeepAlive, nil); err == nil {
			_ = c.sendLocked(line) // a broken connection needs no look
		}
	case time.Since(c.asked) >= c.o.KeepAliveTime: // it had time to answer, also if this process had stood still
		c.dropLocked(&SilentError{silent.Round(time.Second)})
		return
	default:
		next -= time.Since(c.asked)
	}
	c.alive.Reset(next)
}

// sign calls the other side when nothing was sent for long, so that it knows of this one. A line
// that is still being written is a sign as well.
func (c *Conn) sign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.broken != nil {
		return
	}
	rest := c.o.SignTime - time.Since(c.sent)
	if rest <= 0 {
		rest = c.o.SignTime
		if line, err := requestLine(`"sign"`, c.o.Sign, nil); err == nil && c.queued == 0 {
			_ = c.sendLocked(line)
		}
	}
	c.signs.Reset(rest)
}
