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
func (h *heartbeat) nextCheck(deadline time.Time) time.Time {
	if h.enabled && h.nextBeat.Add(minAnswerDelay).Before(deadline) {
		return h.nextBeat
	}
	return deadline
}

// beatIfDue reports whether a beat is due, and how long the call has taken, which grows with each
// beat.
func (h *heartbeat) beatIfDue() (elapsed time.Duration, due bool) {
	now := time.Now()
	if !h.enabled || now.Before(h.nextBeat) {
		return 0, false
	}
	h.lastBeat, h.nextBeat = now, now.Add(beatInterval)
	return now.Sub(h.start), true
}

// waitQuiet waits until an answer may follow the last beat. It returns false if ctx ends. Without
// a beat it returns at once.
func (h *heartbeat) waitQuiet(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	rest := minAnswerDelay - time.Since(h.lastBeat)
	if h.lastBeat.IsZero() || rest <= 0 {
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
