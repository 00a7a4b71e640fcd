package reply

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

// A Heartbeat tells a call when to send its client the next progress.
type Heartbeat struct {
	enabled  bool
	start    time.Time
	lastBeat time.Time // zero before the first
	nextBeat time.Time
}

// NewHeartbeat returns the heartbeat of a call that starts now. If on is false, it never beats.
func NewHeartbeat(on bool) *Heartbeat {
	now := time.Now()
	return &Heartbeat{enabled: on, start: now, nextBeat: now.Add(firstBeatDelay)}
}

// NextCheck returns when to check again: at the next beat, but not after the deadline. A beat
// just before the deadline is skipped.
func (h *Heartbeat) NextCheck(deadline time.Time) time.Time {
	if h.enabled && h.nextBeat.Add(minAnswerDelay).Before(deadline) {
		return h.nextBeat
	}
	return deadline
}

// BeatIfDue reports whether a beat is due, and how long the call has taken, which grows with each
// beat.
func (h *Heartbeat) BeatIfDue() (elapsed time.Duration, due bool) {
	now := time.Now()
	if !h.enabled || now.Before(h.nextBeat) {
		return 0, false
	}
	h.lastBeat, h.nextBeat = now, now.Add(beatInterval)
	return now.Sub(h.start), true
}

// WaitQuiet waits until an answer may follow the last beat. It returns false if ctx ends. Without
// a beat it returns at once.
func (h *Heartbeat) WaitQuiet(ctx context.Context) bool {
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
