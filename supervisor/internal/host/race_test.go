//go:build race && !windows

package host_test

// raceEnabled: the race detector makes every program large.
const raceEnabled = true
