package jsonrpc2

import (
	"fmt"
	"sync"
	"time"
)

// An activityReader reads from the stream and notes when bytes arrive.
type activityReader struct{ c *Conn }

func (r activityReader) Read(b []byte) (int, error) {
	n, err := r.c.stream.Read(b)
	if n > 0 {
		r.c.noteActivity()
	}
	return n, err
}

// noteActivity notes that bytes have arrived, or that a part of a long line was written.
func (c *Conn) noteActivity() { c.lastActivity.Store(int64(time.Since(c.created))) }

// LastActivity returns when bytes last arrived, or when a part of a long line was last written.
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

// A TimeoutError says that a connection was dropped because its other side was silent for too long.
type TimeoutError struct{ Silence time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("no data received for %s", e.Silence)
}

// AddKeepAlive makes [Options.KeepAlive] check the connection even while no call waits, until
// release.
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

// updateWantedLocked notes whether a call or a keep-alive hold needs the connection, and starts the
// timer if so. The caller holds c.mu.
func (c *Conn) updateWantedLocked() {
	switch wanted := c.keepAliveHolds+len(c.calls) > 0; {
	case c.options.KeepAlive == "" || c.dropCause != nil:
	case !wanted:
		c.wantedSince = time.Time{} // checkAlive sees this, and does not set the timer again
	case c.wantedSince.IsZero():
		c.wantedSince = time.Now()
		if c.aliveTimer == nil {
			c.aliveTimer = time.AfterFunc(c.options.KeepAliveInterval, c.checkAlive)
		} else {
			c.aliveTimer.Reset(c.options.KeepAliveInterval)
		}
	}
}

// checkAlive calls the other side when it has been silent for KeepAliveInterval, and drops the
// connection when it stays silent for as long again.
func (c *Conn) checkAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wantedSince.IsZero() || c.dropCause != nil {
		return
	}
	since := c.LastActivity()
	if c.wantedSince.After(since) { // no data was expected before that
		since = c.wantedSince
	}
	silent, next := time.Since(since), c.options.KeepAliveInterval
	switch {
	case silent < c.options.KeepAliveInterval:
		next -= silent
	case !c.lastAsked.After(since):
		c.lastAsked = time.Now()
		if line, err := requestLine(`"alive"`, c.options.KeepAlive, nil); err == nil {
			_ = c.sendLocked(outgoing{line: line}) // a broken connection needs no check
		}
	case time.Since(c.lastAsked) >= c.options.KeepAliveInterval: // it had time to answer, even if this process was suspended
		c.dropLocked(&TimeoutError{silent.Round(time.Second)})
		return
	default:
		next -= time.Since(c.lastAsked)
	}
	c.aliveTimer.Reset(next)
}

// sendHeartbeat calls the other side when nothing was sent for HeartbeatInterval, to show that this
// side is alive. A line that is still being written shows this as well.
func (c *Conn) sendHeartbeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished || c.dropCause != nil {
		return
	}
	rest := c.options.HeartbeatInterval - time.Since(c.heartbeat.lastSent)
	if rest <= 0 {
		rest = c.options.HeartbeatInterval
		if line, err := requestLine(`"sign"`, c.options.Heartbeat, nil); err == nil && c.queued == 0 {
			_ = c.sendLocked(outgoing{line: line})
		}
	}
	c.heartbeat.timer.Reset(rest)
}
