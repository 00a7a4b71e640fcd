//go:build !race && !windows

package launch_test

const raceEnabled = false
