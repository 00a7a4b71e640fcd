//go:build !linux

package kernelworker

// ignoresInterrupts cannot be known here.
func ignoresInterrupts(int) bool { return false }
