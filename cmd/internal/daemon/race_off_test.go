//go:build !race

package daemon_test

// raceDetector says that memory is not what it would be.
const raceDetector = false
