// Package backoff paces the retries of a client whose connection is lost: how long to pause, and when
// to give up.
//
// It starts no goroutines.
package backoff

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// Delays returns the pauses before the daemon is dialled again. For a local daemon there are only the
// first three, about a second in all. For a remote daemon that was reached before, retries continue
// while a call waits; the last delay repeats.
func Delays() []time.Duration {
	return []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond, 2 * time.Second, 5 * time.Second}
}

// Delay returns the pause before a retry, of which n have failed before.
func Delay(n int) time.Duration {
	all := Delays()
	return all[min(n, len(all)-1)]
}

// MaxLosses bounds the consecutive retries whose connection is lost within lossWindow: a connection
// that ends so soon may have ended because of the call.
const (
	MaxLosses  = 8
	lossWindow = 10 * time.Second
)

// LossCounter counts the consecutive connections that one caller has lost within lossWindow.
type LossCounter struct {
	recent int
	last   time.Time
}

// RecordLoss counts a loss and pauses before another try, longer each time. It returns an error
// after too many losses.
func (l *LossCounter) RecordLoss(ctx context.Context, method string, lost error) error {
	if !l.last.IsZero() && time.Since(l.last) > lossWindow {
		l.recent = 0
	}
	l.recent++
	switch {
	case l.recent > MaxLosses:
		return &session.Error{Kind: session.KindUnreachable, Cause: lost, Message: fmt.Sprintf(
			"%d connections in a row ended during %s, so it was not retried again: %v", l.recent, method, lost)}
	case l.recent > 1: // most connections are lost only once
		if err := Sleep(ctx, Delay(l.recent-2)); err != nil {
			return err
		}
	}
	l.last = time.Now()
	return nil
}

// Sleep pauses. If ctx ends before, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
