package mcpserver

import (
	"context"
	"time"
)

const (
	// The first progress of a call comes after one second, and later ones every five.
	firstBeatDelay = time.Second
	beatInterval   = 5 * time.Second

	// minAnswerDelay is the least time between the last progress of a call and its answer. If
	// both come at once, some clients read the answer first and then cannot assign the progress
	// to a call.
	minAnswerDelay = 100 * time.Millisecond
)

// A heartbeat tells a call when to send its client the next progress.
type heartbeat struct {
	enabled  bool
	start    time.Time
	lastBeat time.Time // zero before the first
	nextBeat time.Time
}

func newHeartbeat(on bool) *heartbeat {
	now := time.Now()
	return &heartbeat{enabled: on, start: now, nextBeat: now.Add(firstBeatDelay)}
}

// nextCheck returns when to check again: at the next beat, but not after the deadline. A beat
// just before the deadline is skipped.
func (b *heartbeat) nextCheck(deadline time.Time) time.Time {
	if b.enabled && b.nextBeat.Add(minAnswerDelay).Before(deadline) {
		return b.nextBeat
	}
	return deadline
}

// beatIfDue reports whether a beat is due, and how long the call has taken, which grows with each
// beat.
func (b *heartbeat) beatIfDue() (elapsed time.Duration, due bool) {
	now := time.Now()
	if !b.enabled || now.Before(b.nextBeat) {
		return 0, false
	}
	b.lastBeat, b.nextBeat = now, now.Add(beatInterval)
	return now.Sub(b.start), true
}

// waitQuiet waits until an answer may follow the last beat. It returns false if ctx ends. Without
// a beat it returns at once.
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
