//go:build race && !windows

package launch_test

// raceEnabled says that the race detector is on, which makes every program large.
const raceEnabled = true
