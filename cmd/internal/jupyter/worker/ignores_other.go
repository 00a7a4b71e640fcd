//go:build !linux

package worker

// ignoresInterrupts cannot be known here.
func ignoresInterrupts(int) bool { return false }
