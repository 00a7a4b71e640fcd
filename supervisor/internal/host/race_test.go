//go:build race

package host_test

// raceEnabled: the race detector makes every program large.
const raceEnabled = true
