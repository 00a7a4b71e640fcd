package mcpserver

import (
	"context"
	"time"
)

const (
	// The first progress of a call comes after a second, the others every five.
	firstBeat = time.Second
	beatEvery = 5 * time.Second

	// quiet is the least time between the last progress of a call and its answer. When
	// both come at once, some clients read the answer first, and then do not know the
	// call of the progress.
	quiet = 100 * time.Millisecond
)

// A heartbeat says when a call should tell its client that it is alive.
type heartbeat struct {
	on    bool
	start time.Time
	last  time.Time // zero before the first
	at    time.Time // of the next
}

func newHeartbeat(on bool) *heartbeat {
	now := time.Now()
	return &heartbeat{on: on, start: now, at: now.Add(firstBeat)}
}

// next returns when to look again: at the next beat, but not after the deadline. A
// beat just before the deadline is left out.
func (b *heartbeat) next(deadline time.Time) time.Time {
	if b.on && b.at.Add(quiet).Before(deadline) {
		return b.at
	}
	return deadline
}

// due reports whether a beat is due, and then how long the call has taken: more
// at each beat.
func (b *heartbeat) due() (elapsed time.Duration, due bool) {
	now := time.Now()
	if !b.on || now.Before(b.at) {
		return 0, false
	}
	b.last, b.at = now, now.Add(beatEvery)
	return now.Sub(b.start), true
}

// hold waits until an answer may follow the last beat. It returns false when ctx
// ends. Without a beat it returns at once.
func (b *heartbeat) hold(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	rest := quiet - time.Since(b.last)
	if b.last.IsZero() || rest <= 0 {
		return true
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
