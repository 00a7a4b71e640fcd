package daemon

import "time"

// SetClock gives a daemon a clock for idleness, which looks when something comes on looks.
func (o *Options) SetClock(now func() time.Time, looks <-chan time.Time) {
	o.clock = &idlenessClock{now, looks}
}
