//go:build !race && !windows

package host_test

import "time"

const (
	raceEnabled = false
	// endLimit is how soon a whole tree must have ended.
	endLimit = time.Second
)
