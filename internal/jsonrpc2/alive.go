package jsonrpc2

import (
	"fmt"
	"sync"
	"time"
)

// activityReader reads from the stream and notes when bytes come.
type activityReader struct{ c *Conn }

func (h activityReader) Read(b []byte) (int, error) {
	n, err := h.c.stream.Read(b)
	if n > 0 {
		h.c.noteActivity()
	}
	return n, err
}

func (c *Conn) noteActivity() { c.lastActivity.Store(int64(time.Since(c.created))) }

// LastActivity returns when bytes last came, or moved in a long line of ours.
func (c *Conn) LastActivity() time.Time { return c.created.Add(time.Duration(c.lastActivity.Load())) }

// CloseCause returns why the connection has ended; nil while it has not.
func (c *Conn) CloseCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endedErr == nil {
		return nil
	}
	return c.endedErr.Cause
}

// A TimeoutError drops a connection on which nothing comes any more.
type TimeoutError struct{ Silence time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("nothing has come from it for %s", e.Silence)
}

// AddKeepAlive has KeepAlive look after the connection, also while no call waits, until release.
func (c *Conn) AddKeepAlive() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepAliveHolds++
	c.updateWantedLocked()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keepAliveHolds--
		c.updateWantedLocked()
	})
}

// updateWantedLocked notes whether something wants the connection. The caller holds c.mu.
func (c *Conn) updateWantedLocked() {
	switch wanted := c.keepAliveHolds+len(c.calls) > 0; {
	case c.options.KeepAlive == "" || c.dropCause != nil:
	case !wanted:
		c.wantedSince = time.Time{} // the timer finds that, and rests
	case c.wantedSince.IsZero():
		c.wantedSince = time.Now()
		if c.aliveTimer == nil {
			c.aliveTimer = time.AfterFunc(c.options.KeepAliveInterval, c.checkAlive)
		} else {
			c.aliveTimer.Reset(c.options.KeepAliveInterval)
		}
	}
}

// checkAlive asks the other side whether it is there when it has been silent for long, and drops the
// connection when it stays silent.
func (c *Conn) checkAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wantedSince.IsZero() || c.dropCause != nil {
		return
	}
	since := c.LastActivity()
	if c.wantedSince.After(since) { // before that, nobody expected anything
		since = c.wantedSince
	}
	silent, next := time.Since(since), c.options.KeepAliveInterval
	switch {
	case silent < c.options.KeepAliveInterval:
		next -= silent
	case !c.lastAsked.After(since):
		c.lastAsked = time.Now()
		if line, err := requestLine(`"alive"`, c.options.KeepAlive, nil); err == nil {
			_ = c.sendLocked(line) // a broken connection needs no look
		}
	case time.Since(c.lastAsked) >= c.options.KeepAliveInterval: // it had time to answer, also if this process had stood still
		c.dropLocked(&TimeoutError{silent.Round(time.Second)})
		return
	default:
		next -= time.Since(c.lastAsked)
	}
	c.aliveTimer.Reset(next)
}

// sendHeartbeat calls the other side when nothing was sent for long, so that it knows of this one. A line
// that is still being written is a sign as well.
func (c *Conn) sendHeartbeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished || c.dropCause != nil {
		return
	}
	rest := c.options.HeartbeatInterval - time.Since(c.lastSent)
	if rest <= 0 {
		rest = c.options.HeartbeatInterval
		if line, err := requestLine(`"sign"`, c.options.Heartbeat, nil); err == nil && c.queued == 0 {
			_ = c.sendLocked(line)
		}
	}
	c.heartbeatTimer.Reset(rest)
}
