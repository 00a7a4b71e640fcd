//go:build race && !windows

package host_test

import "time"

const (
	// raceEnabled: the race detector makes every program large,
	raceEnabled = true
	// endLimit: and slow.
	endLimit = 3 * time.Second
)
