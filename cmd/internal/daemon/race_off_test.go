//go:build !race

package daemon_test

// raceDetector reports whether the race detector, which uses more memory, is on.
const raceDetector = false
