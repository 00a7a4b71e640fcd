//go:build !linux

package kernelworker

// ignoresInterrupts returns false, because this system does not show it.
func ignoresInterrupts(int) bool { return false }
