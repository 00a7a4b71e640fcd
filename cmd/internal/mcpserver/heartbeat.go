package mcpserver

import (
	"context"
	"time"
)

const (
	// The first progress of a call comes after a second, the others every five.
	firstBeatDelay = time.Second
	beatInterval   = 5 * time.Second

	// minAnswerDelay is the least time between the last progress of a call and its answer. When
	// both come at once, some clients read the answer first, and then do not know the
	// call of the progress.
	minAnswerDelay = 100 * time.Millisecond
)

// A heartbeat says when a call should tell its client that it is alive.
type heartbeat struct {
	enabled  bool
	start    time.Time
	lastBeat time.Time // zero before the first
	nextBeat time.Time // of the next
}

func newHeartbeat(on bool) *heartbeat {
	now := time.Now()
	return &heartbeat{enabled: on, start: now, nextBeat: now.Add(firstBeatDelay)}
}

// nextCheck returns when to look again: at the next beat, but not after the deadline. A
// beat just before the deadline is left out.
func (b *heartbeat) nextCheck(deadline time.Time) time.Time {
	if b.enabled && b.nextBeat.Add(minAnswerDelay).Before(deadline) {
		return b.nextBeat
	}
	return deadline
}

// beatIfDue reports whether a beat is due, and then how long the call has taken: more
// at each beat.
func (b *heartbeat) beatIfDue() (elapsed time.Duration, due bool) {
	now := time.Now()
	if !b.enabled || now.Before(b.nextBeat) {
		return 0, false
	}
	b.lastBeat, b.nextBeat = now, now.Add(beatInterval)
	return now.Sub(b.start), true
}

// waitQuiet waits until an answer may follow the last beat. It returns false when ctx
// ends. Without a beat it returns at once.
func (b *heartbeat) waitQuiet(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	rest := minAnswerDelay - time.Since(b.lastBeat)
	if b.lastBeat.IsZero() || rest <= 0 {
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
