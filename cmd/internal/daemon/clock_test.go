package daemon

import "time"

// SetClock replaces the clock by which a daemon measures idleness.
func (o *Options) SetClock(now func() time.Time, looks <-chan time.Time) {
	o.clock = &idlenessClock{now, looks}
}
