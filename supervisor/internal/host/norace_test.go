//go:build !race && !windows

package host_test

const raceEnabled = false
